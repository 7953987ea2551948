// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "hbmwire/error.hpp"
#include "hbmwire/export.hpp"

namespace hbmwire {

namespace detail {
struct Internals;
struct TraceState;
}  // namespace detail

/// The file that a trace is written to, and how large it may become.
struct TraceOptions {
  /// The file, which must not exist yet: if it does, the trace goes to "FILE.PID", or "FILE.PID.2"
  /// and so on, and the log says so. "%p" stands for the process id, "%%" for "%".
  std::string file;

  /// The file's size in bytes, at most; at least 64 KiB. Further transfers are counted, but not
  /// written.
  std::uint64_t most_bytes = std::uint64_t{256} << 20U;
};

/// How many transfers a trace has.
struct TraceCounts {
  std::uint64_t transfers = 0;     ///< written
  std::uint64_t dropped_busy = 0;  ///< left out: they ended faster than the thread could write
  std::uint64_t dropped_full = 0;  ///< left out: TraceOptions::most_bytes was reached, or the disk
                                   ///< was full
  bool operator==(const TraceCounts&) const = default;
};

/// Writes what happens to each transfer of this process into a file. The file is in the Trace Event
/// Format (JSON), which `hbmwire trace`, Perfetto and chrome://tracing read (docs/tracing.md). The
/// trace is on from start() until stop(), or until this object goes. HBMWIRE_TRACE does the same
/// from the first Context of the process until the process ends. One trace at a time. Move-only.
///
/// A trace has all transfers that begin while it is on, also those of workers that were made before
/// it; each transfer is written once it is over. Each transfer costs its worker three clock reads
/// and a copy of some 100 bytes; the worker never waits for the file. A thread of the library
/// writes, as long as the trace is on. A child by fork(2) writes nothing to its parent's file.
class HBMWIRE_API Trace {
 public:
  /// Starts the trace. Errors: Stage::configure: Errc::invalid_argument (no file is named, or too
  /// few bytes); Errc::busy (a trace is on already); why the file can't be made; Errc::exhausted
  /// (no memory, no thread). Threads: any.
  static Result<Trace> start(const TraceOptions& options);

  Trace(Trace&& other) noexcept;
  Trace& operator=(Trace&& other) noexcept;
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// As stop().
  ~Trace();

  /// Ends the trace, once all transfers that were over before this call are written. Errors: the
  /// file could not be written (Stage::complete): it has the earlier transfers, and is complete if
  /// there was room for its end. Errc::not_found: the trace was stopped before, or it is the
  /// parent's of this child by fork(2). Threads: any.
  Result<TraceCounts> stop();

  /// The name of the file that is written.
  [[nodiscard]] const std::string& file() const noexcept;

 private:
  friend struct detail::Internals;

  explicit Trace(std::unique_ptr<detail::TraceState> state) noexcept;

  std::unique_ptr<detail::TraceState> state_;
};

}  // namespace hbmwire

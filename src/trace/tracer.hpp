// SPDX-License-Identifier: MIT
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "hbmwire/trace.hpp"

#include "base/forks.hpp"
#include "trace/trace_events.hpp"
#include "trace/trace_file.hpp"
#include "trace/trace_source.hpp"

namespace hbmwire::detail {

/// A trace that is being written.
struct TraceRun {
  explicit TraceRun(TraceFile file_of, std::uint32_t process)
      : file(std::move(file_of)), events(process), path(file.path()), note(file.note()) {}

  TraceFile file;
  TraceEvents events;
  TraceCounts counts;
  bool ended = false;  // the file could not be written
  // Prepared for start(), which moves them out: nothing may fail once the trace has begun.
  std::string path;
  std::string note;
};

/// The trace of one process, if one is on: the workers that write to it, the names of their
/// endpoints, and the thread that writes the file.
class Tracer {
 public:
  Tracer() = default;
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;
  ~Tracer() = default;

  /// The process's Tracer. A child by fork(2) gets a new one, and never writes to its parent's
  /// file. May throw std::bad_alloc.
  static Tracer& of_process();

  /// Whether this belongs to a parent by fork(2).
  [[nodiscard]] bool is_foreign() const noexcept { return made_.is_inherited(); }

  /// Starts a trace; returns its number and the name of its file. Errors: those of Trace::start().
  Result<std::pair<std::uint64_t, std::string>> start(const TraceOptions& options);

  /// Starts the trace of the settings, once in a process. Does nothing if they name no file.
  /// Errors: those of Trace::start().
  Result<void> start_as_set(const TraceOptions& options);

  /// Ends the trace with this number. Errors: those of Trace::stop().
  Result<TraceCounts> stop(std::uint64_t number);

  // --- used by TraceSource

  void add(TraceSource& source);
  void remove(TraceSource& source) noexcept;
  void add_peer(std::uint32_t connection, TracePeer peer);
  void remove_peer(std::uint32_t connection) noexcept;

 private:
  /// The names of an endpoint. They are kept until all its records are written.
  struct Peer {
    TracePeer names;
    std::optional<std::uint64_t> left;  // the round in which the endpoint ended
  };

  using Rings = std::vector<std::shared_ptr<TraceRing>>;

  Result<void> begin(const TraceOptions& options);
  Result<void> start_thread();
  void tell_of_other_name(std::unique_lock<std::mutex>& lock) const;
  /// Gives the worker a ring for the records of this trace.
  void attach(TraceSource& source);
  /// Takes the rings from all workers: they record no more.
  void detach_all() noexcept;
  void run() noexcept;
  void write_round(std::unique_lock<std::mutex>& lock) noexcept;
  void add_record(const TraceRecord& record, std::uint32_t worker) noexcept;
  void forget_gone();
  static void stop_at_exit() noexcept;

  MadeHere made_;

  std::mutex mutex_;
  std::condition_variable woken_;
  std::vector<TraceSource*> sources_;
  Rings rings_;  // of the trace: those of its workers, and of workers that have gone since it began
  std::unordered_map<std::uint32_t, Peer> peers_;
  std::uint32_t workers_ = 0;  // since the start
  std::uint64_t number_ = 0;   // of the current trace, or of the last one
  std::uint64_t round_ = 0;    // the number of rounds of writing so far
  bool was_set_ = false;       // start_as_set() has begun one
  bool stopping_ = false;
  std::unique_ptr<TraceRun> on_;  // only the writing thread uses it, except at its start and end
  std::thread thread_;
};

/// The state of a Trace.
struct TraceState {
  Tracer* tracer = nullptr;
  std::uint64_t number = 0;
  std::string file;
};

}  // namespace hbmwire::detail

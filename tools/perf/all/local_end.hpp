// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "hbmwire/buffer.hpp"
#include "hbmwire/context.hpp"
#include "hbmwire/endpoint.hpp"
#include "hbmwire/fd.hpp"
#include "hbmwire/memory_key.hpp"
#include "hbmwire/worker.hpp"

#include "tools/common/failure.hpp"
#include "tools/common/pattern.hpp"
#include "tools/perf/all/near_memory.hpp"

namespace hbmwire::tools::perf::all {

/// Where another end is reached, as its process told.
struct RemoteEnd {
  std::vector<std::string> addresses;  ///< "host:port", the most useful first
  std::vector<std::byte> key;          ///< gives access to its slots
};

/// How the memory of an end is divided: what it sends, a slot for each end that may write to it at
/// the same time, and some bytes for the puts that set a connection up.
struct EndLayout {
  std::uint64_t message_bytes = 0;
  std::uint64_t slots = 1;

  static constexpr std::uint64_t kSetUpBytes = 4096;

  [[nodiscard]] std::uint64_t slot_offset(std::uint64_t slot) const noexcept {
    return message_bytes * (1 + slot);
  }

  [[nodiscard]] std::uint64_t set_up_offset() const noexcept { return slot_offset(slots); }

  [[nodiscard]] std::uint64_t total_bytes() const noexcept { return set_up_offset() + kSetUpBytes; }
};

/// The result of one cell.
struct Moved {
  std::uint64_t bytes = 0;
  double seconds = 0;
  std::string path = {};
};

/// A NIC and a memory of this process, opened: a context, a worker, a listener and a registered
/// buffer of their own, so that transfers go by this NIC alone. Threads of the library and of this
/// class serve its peers; the functions are called by one thread at a time, but for put_for().
class LocalEnd {
 public:
  /// Errors: the hardware can't be opened or registered; the failure names it.
  static Outcome<std::unique_ptr<LocalEnd>> open(const FoundEnd& found, const EndLayout& layout);

  LocalEnd(const LocalEnd&) = delete;
  LocalEnd& operator=(const LocalEnd&) = delete;
  ~LocalEnd();

  /// The facts that other processes need to reach it.
  [[nodiscard]] Outcome<RemoteEnd> remote() const;

  /// How the NIC reaches the memory, as to_string(Path) has it.
  [[nodiscard]] std::string path() const;

  /// Connects to another end, unless it is connected already, and completes a first put to it. `id`
  /// names the end in later calls. Errors: it is not reachable.
  Outcome<void> connect(std::size_t id, const RemoteEnd& remote, const Wait& wait);

  /// Fills the bytes that put_for() sends.
  Outcome<void> fill_source(const Pattern& pattern, const Wait& wait);

  /// Fills a slot with bytes that are not the pattern's.
  Outcome<void> poison_slot(std::uint64_t slot, const Pattern& pattern, const Wait& wait);

  /// Compares all bytes of a slot with the pattern.
  Outcome<Comparison> compare_slot(std::uint64_t slot, const Pattern& pattern, const Wait& wait);

  /// Puts the source's bytes to a slot of a connected end, again and again for `time`. May be
  /// called from another thread, for one end at a time. `patience` bounds each put.
  Outcome<Moved> put_for(std::size_t id, std::uint64_t slot, std::chrono::nanoseconds time,
                         std::chrono::nanoseconds patience, int cancel_fd);

 private:
  struct Link {
    Endpoint endpoint;
    RemoteRegion remote;
  };

  LocalEnd(Context context, Worker worker, Listener listener, Buffer buffer, MemoryKey key,
           EndLayout layout, Fd stop);

  static Outcome<std::unique_ptr<LocalEnd>> try_open(const FoundEnd& found,
                                                     const EndLayout& layout);
  /// The acceptor's loop: accepts peers until `stop_` is readable.
  void accept() noexcept;

  Context context_;
  EndLayout layout_;
  Worker worker_;
  Buffer buffer_;
  MemoryKey key_;
  std::vector<std::byte> staging_;  // one message, in host memory
  Listener listener_;
  Fd stop_;                         // eventfd(2): ends accept()
  std::vector<Endpoint> accepted_;  // accept()'s alone while its thread runs
  std::map<std::size_t, Link> links_;
  std::thread acceptor_;
};

}  // namespace hbmwire::tools::perf::all

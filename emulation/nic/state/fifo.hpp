// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <span>

namespace hbmwire::emulation::nic {

/// The event FIFOs of a fabric. The process that reads a FIFO creates it; every process may write
/// to it. Every end is opened O_RDWR, so that a reader never sees end-of-file and a writer never
/// gets SIGPIPE.
class Fifos {
 public:
  explicit Fifos(std::filesystem::path processes) : processes_(std::move(processes)) {}

  enum class Written : std::uint8_t { yes, full, gone };

  /// Creates FIFO `channel` of `slot`. Returns its read end (blocking, close-on-exec), or -1 with
  /// errno.
  int create(std::uint32_t slot, std::uint64_t channel);

  /// Writes a record of at most PIPE_BUF bytes atomically. Never blocks.
  Written write(std::uint32_t slot, std::uint64_t channel, std::span<const std::byte> record);

  /// Removes the records that `drop` returns true for from a FIFO of this process. Returns how many
  /// it removed.
  template <typename Record, typename Drop>
  std::uint32_t filter(std::uint32_t slot, std::uint64_t channel, Drop drop);

  /// Closes the cached write end of a FIFO.
  void forget(std::uint64_t channel);

  void remove(std::uint32_t slot, std::uint64_t channel);

  [[nodiscard]] std::filesystem::path path(std::uint32_t slot, std::uint64_t channel) const;

 private:
  static constexpr std::size_t kMostCached = 64;  // write ends kept open, to bound the descriptors

  int open_end(std::uint32_t slot, std::uint64_t channel) const;

  /// As open_end(), but closes cached ends and the reserve if descriptors run out: without its
  /// event a program would wait for ever. The lock is held.
  int open_end_at_any_price(std::uint32_t slot, std::uint64_t channel);

  bool keep_reserve();

  std::filesystem::path processes_;
  std::mutex mutex_;
  std::map<std::uint64_t, int> ends_;
  int reserve_ = -1;         // a spare descriptor, from the first FIFO on if there is one to spare
  std::mutex filter_mutex_;  // two filters at once would read each other's records
};

}  // namespace hbmwire::emulation::nic

#include "emulation/nic/state/fifo_filter.hpp"

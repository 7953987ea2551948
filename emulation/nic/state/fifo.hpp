// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <span>

namespace hbmwire::emulation::nic {

/// The event FIFOs of a fabric: made by the process that reads them, written by all. Every end is
/// opened O_RDWR, so that a reader never sees end-of-file and a writer never meets SIGPIPE.
class Fifos {
 public:
  explicit Fifos(std::filesystem::path processes) : processes_(std::move(processes)) {}

  enum class Written : std::uint8_t { yes, full, gone };

  /// Makes FIFO `channel` of `slot`; its read end (blocking, close-on-exec), or -1 with errno.
  int create(std::uint32_t slot, std::uint64_t channel);

  /// One write of at most PIPE_BUF bytes, which is atomic; never blocks.
  Written write(std::uint32_t slot, std::uint64_t channel, std::span<const std::byte> record);

  /// Removes what `drop` says of the records of one of this process' FIFOs; the others stay. How
  /// many were dropped.
  template <typename Record, typename Drop>
  std::uint32_t filter(std::uint32_t slot, std::uint64_t channel, Drop drop);

  /// Closes the cached end of a FIFO.
  void forget(std::uint64_t channel);

  void remove(std::uint32_t slot, std::uint64_t channel);

  [[nodiscard]] std::filesystem::path path(std::uint32_t slot, std::uint64_t channel) const;

 private:
  static constexpr std::size_t kMostCached = 64;

  int open_end(std::uint32_t slot, std::uint64_t channel) const;

  /// The same, whatever else has to be closed for it: an event that is lost, or that stays unread,
  /// makes a program wait for ever. With the lock held.
  int open_end_at_any_price(std::uint32_t slot, std::uint64_t channel);

  bool keep_reserve();

  std::filesystem::path processes_;
  std::mutex mutex_;
  std::map<std::uint64_t, int> ends_;
  int reserve_ = -1;         // there once this process has a FIFO, if descriptors allow
  std::mutex filter_mutex_;  // two filters at once would take each other's records for read
};

}  // namespace hbmwire::emulation::nic

#include "emulation/nic/state/fifo_filter.hpp"

// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"

#include "memory/rocm/machine.hpp"

namespace hbmwire::memory::rocm {

/// How far one copy is: a signal of ROCr's, 1 while it goes on, 0 when it is done. A copy that
/// fails sets it to a negative number, for which a copy that depends on it would wait for ever:
/// whoever looks first takes note of the failure and sets it to 0. Thread-safe.
class Signal {
 public:
  static Result<std::shared_ptr<Signal>> create(const Hsa& hsa, std::string_view device);

  Signal(const Hsa& hsa, SignalHandle handle) : hsa_(hsa), handle_(handle) {}

  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  ~Signal();

  [[nodiscard]] SignalHandle handle() const noexcept { return handle_; }

  /// Whether the copy is over.
  bool settle() noexcept;

  /// Asleep, until it may be over.
  void doze() const noexcept;

  [[nodiscard]] bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }

 private:
  const Hsa& hsa_;
  SignalHandle handle_;
  std::atomic<bool> failed_{false};
};

/// Copies between the host and one GPU, and within it, by its own engines, in the order in which
/// they are started.
/// Thread-safe.
class CopyQueue {
 public:
  enum class Direction : std::uint8_t { in, out };

  /// Both outlive the queue and its copies.
  CopyQueue(std::shared_ptr<const Machine> machine, const Gpu& gpu);

  /// `bytes` are locked for the GPU until the copy is over, unless ROCr allocated them.
  Result<PendingCopy> start(Direction direction, std::uint64_t address, std::span<std::byte> bytes);

  Result<PendingCopy> start_within(std::uint64_t from, std::uint64_t to, std::uint64_t bytes);

 private:
  /// Where a copy's bytes lie.
  struct End {
    void* address;
    Agent agent;
  };

  template <class Copy>
  Result<PendingCopy> hand_over(std::unique_ptr<Copy> copy, End to, End from, std::uint64_t bytes);

  std::shared_ptr<const Machine> machine_;
  const Gpu& gpu_;
  std::mutex mutex_;
  std::shared_ptr<Signal> last_;
};

}  // namespace hbmwire::memory::rocm

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

/// The progress of one copy: a signal of ROCr, which is 1 during the copy and 0 after it. A copy
/// that fails sets it to a negative number, and a copy that depends on it would wait for ever. So
/// the first thread that looks notes the failure and sets it to 0. Thread-safe.
class Signal {
 public:
  static Result<std::shared_ptr<Signal>> create(const Hsa& hsa, std::string_view device);

  Signal(const Hsa& hsa, SignalHandle handle) : hsa_(hsa), handle_(handle) {}

  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  ~Signal();

  [[nodiscard]] SignalHandle handle() const noexcept { return handle_; }

  /// Whether the copy has ended. If it has failed, notes that for failed(), and sets the signal to
  /// 0.
  bool settle() noexcept;

  /// Sleeps until the copy may have ended.
  void doze() const noexcept;

  [[nodiscard]] bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }

 private:
  const Hsa& hsa_;
  SignalHandle handle_;
  std::atomic<bool> failed_{false};
};

/// Copies between the host and one GPU, and within the GPU, by the GPU's own engines. They run in
/// the order in which they were started. Thread-safe.
class CopyQueue {
 public:
  enum class Direction : std::uint8_t { in, out };

  /// Both must outlive the queue and its copies.
  CopyQueue(std::shared_ptr<const Machine> machine, const Gpu& gpu);

  /// Locks `bytes` for the GPU until the copy has ended, unless ROCr has allocated them.
  Result<PendingCopy> start(Direction direction, std::uint64_t address, std::span<std::byte> bytes);

  Result<PendingCopy> start_within(std::uint64_t from, std::uint64_t to, std::uint64_t bytes);

 private:
  /// The source or the destination of a copy.
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

// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace hbmwire::emulation {

/// Where a process can be made to die or to stop, for the tests of what happens to the others.
class StepTrap {
 public:
  /// The n-th arrival at `step` from now (1: the next) sends `signal` to the thread. An empty step
  /// disarms. One thread at a time, while no other arrives anywhere.
  static void set(std::string_view step, std::int64_t nth, int signal);

  static bool armed() noexcept { return armed_.load(std::memory_order_relaxed); }

  static void arrive(std::string_view step) noexcept;

 private:
  static inline std::atomic<bool> armed_{false};
};

/// The process is at a step of its work. Without a trap one branch.
inline void fault_step(std::string_view step) noexcept {
  if (StepTrap::armed()) [[unlikely]]
    StepTrap::arrive(step);
}

}  // namespace hbmwire::emulation

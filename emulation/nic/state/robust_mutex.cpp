// SPDX-License-Identifier: MIT
#include "emulation/nic/state/robust_mutex.hpp"

#include <ctime>

#include "emulation/nic/state/stopped.hpp"

namespace hbmwire::emulation::nic {
namespace {

constexpr std::uint64_t kNsPerSecond = 1'000'000'000;

std::uint64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * kNsPerSecond +
         static_cast<std::uint64_t>(now.tv_nsec);
}

/// The futex word of a robust mutex is its holder's thread id, and two bits of the kernel's.
std::int32_t holder_of(const pthread_mutex_t& mutex) {
  constexpr unsigned kIdBits = 0x3fffffff;
  const int word = __atomic_load_n(&mutex.__data.__lock, __ATOMIC_RELAXED);
  return static_cast<std::int32_t>(static_cast<unsigned>(word) & kIdBits);
}

}  // namespace

RobustMutex::Taken RobustMutex::result_of(int error) noexcept {
  if (error == EOWNERDEAD) {
    pthread_mutex_consistent(&mutex_);
    return Taken::inherited;
  }
  return error == 0 ? Taken::yes : Taken::no;
}

RobustMutex::Taken RobustMutex::lock_slowly(int error) noexcept {
  // Longer than a running holder keeps most locks, and short for who polls while its request waits
  // for a stopped one; then a look at the holder now and then.
  constexpr std::uint64_t kFirstLookNs = 50'000;
  constexpr std::uint64_t kLookNs = 1'000'000;
  // A copy of 2 GiB takes a second or two. Who is frozen otherwise (cgroups) does not look stopped.
  constexpr std::uint64_t kLongestNs = 10 * kNsPerSecond;
  std::uint64_t longest = 0;
  while (error == EBUSY || error == ETIMEDOUT) {
    const std::uint64_t now = monotonic_ns();
    const std::uint64_t until = now + (longest == 0 ? kFirstLookNs : kLookNs);
    if (longest == 0) longest = now + kLongestNs;
    if (error == ETIMEDOUT && (now >= longest || is_stopped(holder_of(mutex_)))) return Taken::no;
    const timespec look{static_cast<time_t>(until / kNsPerSecond),
                        static_cast<long>(until % kNsPerSecond)};
    error = pthread_mutex_clocklock(&mutex_, CLOCK_MONOTONIC, &look);
  }
  return result_of(error);
}

}  // namespace hbmwire::emulation::nic

// SPDX-License-Identifier: MIT
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "hbmwire/memory_domain.hpp"

#include "base/guarded.hpp"

namespace hbmwire {

namespace {

using namespace std::chrono_literals;

// A device's engine completes a small copy within some microseconds. So wait() polls for this long,
// and then less and less often.
constexpr auto kSpin = 50us;
constexpr auto kShortestSleep = 20us;
// A long copy moves its pinned pieces within some hundred microseconds, and starts new ones only
// when it is polled. A longer sleep would leave the engine idle.
constexpr auto kLongestSleep = 100us;

/// Sleeps, unless `cancel_fd` (or -1) is or becomes readable, for which it returns true.
Result<bool> cancelled_within(int cancel_fd, std::chrono::nanoseconds duration) {
  pollfd entry{.fd = cancel_fd, .events = POLLIN, .revents = 0};
  const timespec timeout{.tv_sec = 0, .tv_nsec = duration.count()};
  const int ready = ::ppoll(&entry, 1, &timeout, nullptr);
  if (ready < 0 && errno != EINTR)
    return tl::make_unexpected(system_error(Stage::copy, "ppoll", errno));
  return ready > 0;
}

}  // namespace

Result<bool> PendingCopy::poll() {
  return guarded(Stage::copy, [&]() -> Result<bool> {
    if (!work_) return true;
    auto done = work_->poll();
    if (!done || *done) work_.reset();
    return done;
  });
}

Result<void> PendingCopy::wait(const Wait& wait) {
  return guarded(Stage::copy, [&]() -> Result<void> {
    const auto spin_until = Deadline::after(kSpin);
    std::chrono::nanoseconds sleep = kShortestSleep;
    while (true) {
      HBMWIRE_TRY_ASSIGN(const bool done, poll());
      if (done) return {};
      if (wait.deadline.passed()) {
        return tl::make_unexpected(
            make_error(Errc::timed_out, Stage::copy, "the copy takes too long"));
      }
      if (!spin_until.passed()) continue;
      HBMWIRE_TRY_ASSIGN(const bool cancelled, cancelled_within(wait.cancel_fd, sleep));
      if (cancelled) return tl::make_unexpected(make_error(Errc::cancelled, Stage::copy, "copy"));
      sleep = std::min<std::chrono::nanoseconds>(sleep * 2, kLongestSleep);
    }
  });
}

Result<void> MemoryDomain::pin_host(std::span<std::byte> /*memory*/) {
  return tl::make_unexpected(make_error(Errc::not_supported, Stage::copy,
                                        "copies are not the faster for pinned host memory",
                                        device().name));
}

void MemoryDomain::unpin_host(std::span<std::byte> /*memory*/) noexcept {}

bool MemoryDomain::copies_from(const MemoryDomain& /*source*/) const noexcept { return false; }

Result<PendingCopy> MemoryDomain::start_copy_from(MemoryDomain& source, std::uint64_t /*from*/,
                                                  std::uint64_t /*to*/,
                                                  std::uint64_t /*length_bytes*/) {
  return tl::make_unexpected(make_error(Errc::not_supported, Stage::copy,
                                        "no engine copies between these two devices",
                                        source.device().name));
}

bool MemoryDomain::is_shareable() const noexcept { return false; }

Result<IpcHandle> MemoryDomain::ipc_handle(std::uint64_t /*address*/,
                                           std::uint64_t /*length_bytes*/) {
  return tl::make_unexpected(make_error(Errc::not_supported, Stage::open,
                                        "no other process opens this memory", device().name));
}

Result<Allocation> MemoryDomain::open_ipc(const IpcHandle& /*handle*/) {
  return tl::make_unexpected(make_error(Errc::not_supported, Stage::open,
                                        "it opens no memory of other processes", device().name));
}

Result<void> MemoryDomain::copy_in(std::uint64_t address, std::span<const std::byte> from,
                                   const Wait& wait) {
  return guarded(Stage::copy, [&]() -> Result<void> {
    HBMWIRE_TRY_ASSIGN(auto copy, start_copy_in(address, from));
    return copy.wait(wait);
  });
}

Result<void> MemoryDomain::copy_out(std::uint64_t address, std::span<std::byte> to,
                                    const Wait& wait) {
  return guarded(Stage::copy, [&]() -> Result<void> {
    HBMWIRE_TRY_ASSIGN(auto copy, start_copy_out(address, to));
    return copy.wait(wait);
  });
}

}  // namespace hbmwire

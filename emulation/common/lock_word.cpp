// SPDX-License-Identifier: MIT
#include "emulation/common/lock_word.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <string_view>

namespace hbmwire::emulation {
namespace {

std::uint64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

struct ThreadStatus {
  enum class Kind : std::uint8_t { gone, exited, present, unknown };

  Kind kind = Kind::unknown;
  std::uint32_t started = 0;  // low bits of the time, in the kernel's ticks
};

/// man 5 proc, /proc/[pid]/stat, which knows every thread by its id. What follows the name in
/// parentheses is the state, and, 19 fields on, when it started.
ThreadStatus status_of(std::int32_t thread) {
  std::array<char, 32> path{"/proc/"};
  char* end = std::to_chars(path.data() + 6, path.data() + path.size() - 6, thread).ptr;
  std::memcpy(end, "/stat", 6);
  ThreadStatus status;
  const int fd = ::open(path.data(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    if (errno == ENOENT) status.kind = ThreadStatus::Kind::gone;
    return status;
  }
  std::array<char, 1024> text{};
  const ssize_t got = ::read(fd, text.data(), text.size());
  if (got < 0 && errno == ESRCH) status.kind = ThreadStatus::Kind::gone;
  ::close(fd);
  std::string_view rest(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  const std::size_t name_end = rest.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 >= rest.size()) return status;
  rest.remove_prefix(name_end + 2);
  const char state = rest.front();
  for (int field = 0; field < 19; ++field) {
    const std::size_t blank = rest.find(' ');
    if (blank == std::string_view::npos) return status;
    rest.remove_prefix(blank + 1);
  }
  std::uint64_t started = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), started);
  status.started = static_cast<std::uint32_t>(started);
  status.kind =
      state == 'Z' || state == 'X' ? ThreadStatus::Kind::exited : ThreadStatus::Kind::present;
  return status;
}

/// It runs no instruction of its program any more.
bool is_dead(std::uint64_t id) {
  const ThreadStatus status = status_of(static_cast<std::int32_t>(id));
  switch (status.kind) {
    case ThreadStatus::Kind::gone:
    case ThreadStatus::Kind::exited:
      return true;
    case ThreadStatus::Kind::present:
      return status.started != static_cast<std::uint32_t>(id >> 32U);  // another one of that id
    case ThreadStatus::Kind::unknown:
      break;
  }
  return false;
}

void nap(std::uint64_t ns) {
  const timespec time{0, static_cast<long>(ns)};
  ::nanosleep(&time, nullptr);
}

}  // namespace

thread_local std::uint64_t LockWord::this_thread_ = 0;

std::uint64_t LockWord::ask_for_this_thread() noexcept {
  // A forked child's thread is another one.
  static const int registered = pthread_atfork(nullptr, nullptr, [] { this_thread_ = 0; });
  static_cast<void>(registered);
  const auto id = static_cast<std::uint32_t>(::gettid());
  this_thread_ = std::uint64_t{status_of(static_cast<std::int32_t>(id)).started} << 32U | id;
  return this_thread_;
}

LockWord::Taken LockWord::inherit() noexcept {
  std::uint64_t from = holder_.load(std::memory_order_relaxed);
  if (from == 0) return try_free() ? Taken::yes : Taken::no;
  if (!is_dead(from)) return Taken::no;
  const bool taken = holder_.compare_exchange_strong(from, this_thread(), std::memory_order_acquire,
                                                     std::memory_order_relaxed);
  return taken ? Taken::inherited : Taken::no;
}

LockWord::Taken LockWord::lock_for(std::uint64_t patience_ns) noexcept {
  // Most locks are held for less than a hop between CPUs takes; then their holder may need this
  // CPU; then it copies something large, or is dead.
  constexpr int kSpins = 64;
  constexpr int kYields = 64;
  constexpr std::uint64_t kNapNs = 20'000;
  constexpr std::uint64_t kLongestNapNs = 1'000'000;
  const auto try_idle = [this] {  // a look before, which takes the line from nobody
    return holder_.load(std::memory_order_relaxed) == 0 && try_free();
  };
  for (int i = 0; i < kSpins; ++i) {
    if (try_idle()) return Taken::yes;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  for (int i = 0; i < kYields; ++i) {
    ::sched_yield();
    if (try_idle()) return Taken::yes;
  }
  const std::uint64_t end = monotonic_ns() + patience_ns;
  for (std::uint64_t ns = kNapNs;; ns = std::min(2 * ns, kLongestNapNs)) {
    const Taken taken = try_lock();
    if (taken != Taken::no || monotonic_ns() >= end) return taken;
    nap(ns);
  }
}

}  // namespace hbmwire::emulation

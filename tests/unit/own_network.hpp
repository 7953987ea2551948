// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#ifdef __SANITIZE_THREAD__
#include <thread>
#endif

#include "hbmwire/fd.hpp"

/// A separate network whose loopback device can be removed, which cuts off connections over it.
namespace hbmwire::test {

/// The exit code of a child that may not make a network.
inline constexpr int kNoNetwork = 77;

inline bool set_loopback(bool up) {
  const Fd any{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  ifreq request{};
  std::memcpy(request.ifr_name, "lo", 3);
  request.ifr_flags = static_cast<short>(up ? IFF_UP | IFF_RUNNING | IFF_LOOPBACK : IFF_LOOPBACK);
  return ::ioctl(any.get(), SIOCSIFFLAGS, &request) == 0;
}

/// Runs `work` in a child with a separate network, and expects 0. Skips the test if there can be no
/// such network. Under ThreadSanitizer a child of a process with threads cannot start threads, so
/// `work` runs in a thread instead. Only root can give a separate network to a thread.
template <class Work>
void expect_in_own_network(Work work) {
#ifdef __SANITIZE_THREAD__
  int result = kNoNetwork;
  std::thread([&] {
    if (::unshare(CLONE_NEWNET) == 0 && set_loopback(true)) result = work();
  }).join();
#else
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool has_one = ::unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 && set_loopback(true);
    ::_exit(has_one ? work() : kNoNetwork);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  const int result = WEXITSTATUS(status);
#endif
  if (result == kNoNetwork) GTEST_SKIP() << "no network namespace of one's own";
  EXPECT_EQ(result, 0);
}

}  // namespace hbmwire::test

// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string_view>

#include "hbmwire/error.hpp"
#include "hbmwire/log.hpp"
#include "hbmwire/settings.hpp"

/// Tests what a child by fork(2) may do with its parent's objects.
namespace hbmwire::test {

/// Whether `work` passed in a child by fork(2), without any warning in the log. A call that reaches
/// a NIC of the parent is refused there, and only the log reports it.
inline bool passes_in_child(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    set_log_sink([](LogLevel, std::string_view text) { ADD_FAILURE() << text; });
    work();
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_FALSE(WIFSIGNALED(status)) << "signal " << WTERMSIG(status);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Expects the error of a call for an object that the child has inherited.
template <class T>
void expect_inherited(const Result<T>& result) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().hint, Hint::forked_nic) << describe(result.error());
}

}  // namespace hbmwire::test

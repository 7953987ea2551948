// SPDX-License-Identifier: MIT
#include "base/incarnation.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hbmwire {
namespace {

TEST(Incarnation, IsTheSameInAProcessAndAnotherInItsChild) {
  const std::uint64_t ours = incarnation();
  EXPECT_NE(ours, 0U);
  EXPECT_EQ(incarnation(), ours);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::uint64_t childs = incarnation();
    ::_exit(childs != 0 && childs != ours && incarnation() == childs ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(incarnation(), ours);
}

}  // namespace
}  // namespace hbmwire

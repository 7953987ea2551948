// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>

/// librdmacm works in any order of loading: the program load_order links to neither library.
namespace hbmwire::test {
namespace {

class LoadOrder : public ::testing::TestWithParam<const char*> {};

TEST_P(LoadOrder, IdsCanBeUsed) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl(HBMWIRE_LOAD_ORDER, HBMWIRE_LOAD_ORDER, GetParam(), nullptr);
    ::_exit(127);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

INSTANTIATE_TEST_SUITE_P(Libraries, LoadOrder,
                         ::testing::Values("verbs-first", "rdmacm-first", "again"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace hbmwire::test

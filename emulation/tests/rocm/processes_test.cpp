// SPDX-License-Identifier: MIT
//
// All processes share the GPUs, unlike Gaudi cards.
#include "rocm_world.hpp"

namespace hbmwire::test {
namespace {

TEST(RocmProcesses, ProcessesShareAGpusMemory) {
  const OtherProcess first;
  EXPECT_TRUE(first.took());
  const OtherProcess second;
  EXPECT_FALSE(second.took()) << "two processes cannot have this much memory";
}

TEST(RocmProcesses, TheMemoryOfAKilledProcessIsFreed) {
  OtherProcess first;
  ASSERT_TRUE(first.took());
  first.kill();
  const OtherProcess second;
  EXPECT_TRUE(second.took());
}

}  // namespace
}  // namespace hbmwire::test

// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <random>
#include <stop_token>
#include <string>
#include <thread>

#include "emulation/tool/fabric_directory.hpp"

namespace hbmwire::emulation::tool {
namespace {

using Clock = std::chrono::steady_clock;

class Join : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/dev/shm/join-test-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    options_.parent = name;
  }

  void TearDown() override { std::filesystem::remove_all(options_.parent); }

  Options options_;
};

/// A run that ends removes the base directory if it is empty; here a thread does so again and
/// again. A process that joined meanwhile once failed, because it found the directory and then
/// missed it. The pauses differ, because at an even pace both sides can run in step, with each
/// removal right after a creation.
TEST_F(Join, LeavingProgramsDoNotDisturbAJoin) {
  const std::filesystem::path base = base_directory(options_.parent);
  const std::jthread leaving([&](const std::stop_token& stop) {
    std::minstd_rand random;
    std::uniform_int_distribution nanoseconds(0, 5000);
    while (!stop.stop_requested()) {
      const auto next = Clock::now() + std::chrono::nanoseconds(nanoseconds(random));
      while (Clock::now() < next) {
      }
      ::rmdir(base.c_str());
    }
  });
  for (int i = 0; i < 100; ++i) {
    auto member = join(options_);
    ASSERT_TRUE(member.has_value()) << member.error();
    const auto world = member->world;
    member = problem("left");  // releases the locks
    EXPECT_TRUE(remove_if_unused(world));
  }
}

}  // namespace
}  // namespace hbmwire::emulation::tool

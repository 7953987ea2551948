// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <stop_token>
#include <string>
#include <thread>

#include "tools/emulate/fabric_directory.hpp"

namespace hbmwire::tools::emulate {
namespace {

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

/// Runs that end remove the base, here again and again whenever it is empty: who joins just then
/// found it gone at the second look.
TEST_F(Join, IsNotDisturbedByThoseWhoLeave) {
  const std::filesystem::path base = base_directory(options_.parent);
  const std::jthread leaving([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) ::rmdir(base.c_str());
  });
  for (int i = 0; i < 100; ++i) {
    auto member = join(options_);
    ASSERT_TRUE(member.has_value()) << member.error();
    const auto world = member->world;
    member = problem("left");  // gives up the locks
    EXPECT_TRUE(remove_if_unused(world));
  }
}

}  // namespace
}  // namespace hbmwire::tools::emulate

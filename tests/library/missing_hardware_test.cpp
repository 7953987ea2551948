// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "hbmwire/memory.hpp"
#include "hbmwire/nic.hpp"

#include "open_memory.hpp"

namespace hbmwire {
namespace {

/// A machine without RDMA devices and without Gaudi libraries, whatever the machine at hand has.
class MissingHardware : public testing::Test {
 protected:
  MissingHardware() {
    std::filesystem::create_directories(sysfs_ / "class/infiniband_verbs");
    ::setenv("SYSFS_PATH", sysfs_.c_str(), 1);
  }

  ~MissingHardware() override { std::filesystem::remove_all(sysfs_); }

  std::filesystem::path sysfs_ =
      std::filesystem::temp_directory_path() / ("no-hardware-" + std::to_string(::getpid()));
};

TEST_F(MissingHardware, NoRdmaDeviceNamesTheWayOut) {
  if (std::filesystem::exists("/sys/class/infiniband"))
    GTEST_SKIP() << "this machine has RDMA devices";
  const auto nic = Nic::open();
  ASSERT_FALSE(nic);
  EXPECT_EQ(nic.error().code, Errc::not_found);
  const std::string text = describe(nic.error());
  EXPECT_NE(text.find("no RDMA device found"), std::string::npos) << text;
  EXPECT_NE(text.find("hbmwire emulate"), std::string::npos) << text;
}

TEST_F(MissingHardware, NoGaudiNamesTheWayOut) {
  if (std::filesystem::exists("/usr/lib/habanalabs"))
    GTEST_SKIP() << "this machine has Gaudi libraries";
  for (const auto owner : {MemoryOptions::Owner::automatic, MemoryOptions::Owner::hl_thunk}) {
    const auto card = test::open_memory(MemoryType::gaudi, {.device = {}, .owner = owner});
    ASSERT_FALSE(card);
    EXPECT_EQ(card.error().code, Errc::not_found);
    const std::string text = describe(card.error());
    EXPECT_NE(text.find("libhl-thunk.so"), std::string::npos) << text;
    EXPECT_NE(text.find("hbmwire emulate"), std::string::npos) << text;
    EXPECT_NE(text.find("-m host"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace hbmwire

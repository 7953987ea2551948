// SPDX-License-Identifier: MIT
#include "topology/pci_link.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "hbmwire/topology.hpp"

namespace hbmwire::topology {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRootPort = "0000:00:01.0";
constexpr const char* kSwitch = "0000:01:00.0";
constexpr const char* kNicSlot = "0000:02:00.0";
constexpr const char* kCardSlot = "0000:02:01.0";
constexpr const char* kNic = "0000:03:00.0";
constexpr const char* kCard = "0000:04:00.0";

// A root port, a switch below it, and two slots of the switch.
class PciLinks : public testing::Test {
 protected:
  PciLinks() {
    std::string name = (fs::temp_directory_path() / "pci-links-XXXXXX").string();
    root_ = mkdtemp(name.data());
    const fs::path below_switch = fs::path("pci0000:00") / kRootPort / kSwitch;
    add(fs::path("pci0000:00") / kRootPort, "16.0 GT/s PCIe", "8");
    add(below_switch, "16.0 GT/s PCIe", "8");
    add(below_switch / kNicSlot, "16.0 GT/s PCIe", "16");
    add(below_switch / kNicSlot / kNic, "16.0 GT/s PCIe", "16");
    add(below_switch / kCardSlot, "8.0 GT/s PCIe", "16");
    add(below_switch / kCardSlot / kCard, "8.0 GT/s PCIe", "16");
  }

  ~PciLinks() override { fs::remove_all(root_); }

  void add(const fs::path& device, const char* speed, const char* width) {
    const fs::path directory = root_ / "devices" / device;
    fs::create_directories(directory);
    std::ofstream(directory / "current_link_speed") << speed << "\n";
    std::ofstream(directory / "current_link_width") << width << "\n";
    const fs::path links = root_ / "bus/pci/devices";
    fs::create_directories(links);
    fs::create_symlink(fs::path("../../../devices") / device, links / device.filename());
  }

  fs::path root_;
};

TEST_F(PciLinks, AreTheNarrowestOnTheWayToTheRootComplex) {
  const auto link = narrowest_link(root_, kNic, "");
  ASSERT_TRUE(link);
  EXPECT_EQ(link->lanes, 8U);
  EXPECT_EQ(link->at, kSwitch);
  EXPECT_NEAR(link->bytes_per_second(), 15.754e9, 1e6);
}

TEST_F(PciLinks, LinksAboveACommonSwitchDoNotCount) {
  const auto nic = narrowest_link(root_, kNic, kCard);
  ASSERT_TRUE(nic);
  EXPECT_EQ(*nic, (PciLink{.gigatransfers_per_second = 16, .lanes = 16, .at = kNic}));
  const auto card = narrowest_link(root_, kCard, kNic);
  ASSERT_TRUE(card);
  EXPECT_EQ(*card, (PciLink{.gigatransfers_per_second = 8, .lanes = 16, .at = kCard}));
}

TEST_F(PciLinks, AreUnknownWhereSysfsTellsNone) {
  add("pci0000:00/0000:00:05.0", "Unknown", "0");
  add("pci0000:00/0000:00:06.0", "8.0 GT/s PCIe", "255");
  EXPECT_FALSE(narrowest_link(root_, "0000:00:05.0", ""));
  EXPECT_FALSE(narrowest_link(root_, "0000:00:06.0", ""));
  EXPECT_FALSE(narrowest_link(root_, "0000:77:00.0", ""));
  EXPECT_FALSE(narrowest_link(root_, "", ""));
  EXPECT_FALSE(narrowest_link(root_, "../../..", ""));
}

TEST_F(PciLinks, AMissingDeviceLeadsToTheRootComplex) {
  EXPECT_EQ(narrowest_link(root_, kNic, "0000:77:00.0"), narrowest_link(root_, kNic, ""));
}

TEST(PciLink, TheRateExcludesTheOverheadOfTheEncoding) {
  const auto rate = [](double speed, unsigned lanes) {
    return PciLink{.gigatransfers_per_second = speed, .lanes = lanes, .at = ""}.bytes_per_second();
  };
  EXPECT_DOUBLE_EQ(rate(2.5, 1), 0.25e9);
  EXPECT_DOUBLE_EQ(rate(5, 8), 4e9);
  EXPECT_DOUBLE_EQ(rate(8, 16), 16e9 * 128 / 130);
  EXPECT_DOUBLE_EQ(rate(32, 16), 64e9 * 128 / 130);
  EXPECT_DOUBLE_EQ(rate(64, 16), 128e9);
}

}  // namespace
}  // namespace hbmwire::topology

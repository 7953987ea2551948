// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "hbmwire/context.hpp"
#include "hbmwire/nic.hpp"
#include "hbmwire/topology.hpp"

// Below `hbmwire emulate --nics 2 --gaudi 2`, card i and NIC i are below one switch, and the two
// switches are below two host bridges.
namespace hbmwire {
namespace {

std::string card_address(int index) {
  const std::filesystem::path sysfs = std::getenv("SYSFS_PATH");
  std::ifstream file(sysfs / "class/accel" / ("accel" + std::to_string(index)) / "device/pci_addr");
  std::string address;
  std::getline(file, address);
  return address;
}

// hwloc reads /sys, and sees the emulated devices only with mount namespaces.
bool hwloc_sees(const std::string& pci_address) {
  return std::filesystem::exists("/sys/bus/pci/devices/" + pci_address);
}

Context make_context() {
  auto context = Context::create({.memory = {MemoryType::host}});
  EXPECT_TRUE(context);
  return *context;
}

TEST(Nics, AreListedWithTheirPorts) {
  const auto nics = make_context().nics();
  ASSERT_TRUE(nics) << describe(nics.error());
  ASSERT_EQ(nics->size(), 2U);
  for (std::size_t i = 0; i < nics->size(); ++i) {
    const NicDevice& nic = nics->at(i);
    EXPECT_EQ(nic.name, "emu" + std::to_string(i));
    EXPECT_FALSE(nic.refusal);
    EXPECT_FALSE(nic.scale_up);
    EXPECT_EQ(nic.imports_dmabufs, true);
    EXPECT_FALSE(nic.firmware.empty());
    ASSERT_EQ(nic.ports.size(), 1U);
    const NicPort& port = nic.ports[0];
    EXPECT_EQ(port.state, "active");
    EXPECT_EQ(port.rate_bits_per_second, 100'000'000'000U);
    EXPECT_FALSE(port.refusal);
    EXPECT_GE(port.gids.size(), 4U);
  }
}

TEST(Nics, AreListedAsTheyAreOpened) {
  const auto nics = make_context().nics();
  ASSERT_TRUE(nics);
  const auto opened = Nic::open("emu1");
  ASSERT_TRUE(opened);
  const NicInfo& listed = nics->at(1).ports.at(0).info;
  EXPECT_EQ(listed.name, opened->info().name);
  EXPECT_EQ(listed.pci_address, opened->info().pci_address);
  EXPECT_EQ(listed.firmware, opened->info().firmware);
  EXPECT_EQ(listed.gid, opened->info().gid);
  EXPECT_EQ(listed.gid_index, opened->info().gid_index);
  EXPECT_EQ(listed.mtu_bytes, opened->info().mtu_bytes);
}

// Every emulated link runs at 32 GT/s with 16 lanes.
TEST(PciLink, IsTheCardsOwnTowardsItsNic) {
  const Context context = make_context();
  const auto nics = context.nics();
  ASSERT_TRUE(nics);
  const auto link = context.pci_link(card_address(0), nics->at(0).pci_address);
  ASSERT_TRUE(link);
  EXPECT_EQ(link->at, card_address(0));
  EXPECT_EQ(link->lanes, 16U);
  EXPECT_EQ(link->gigatransfers_per_second, 32);
  EXPECT_FALSE(context.pci_link("ffff:ff:1f.7"));
}

TEST(Nics, NicsBelowACardsSwitchAreItsNearest) {
  if (!hwloc_sees(card_address(0)))
    GTEST_SKIP() << "no mount namespace: hwloc sees the machine's /sys";
  const Context context = make_context();
  const auto nics = context.nics();
  ASSERT_TRUE(nics);
  for (int card = 0; card < 2; ++card) {
    const auto near = context.nics_near(card_address(card), *nics);
    ASSERT_EQ(near.size(), 2U);
    EXPECT_EQ(near[0].name, "emu" + std::to_string(card));
    EXPECT_EQ(near[0].distance, Distance::same_switch);
    // The other half of the machine, which is another NUMA node if the machine has two.
    EXPECT_GE(near[1].distance, Distance::same_numa_node);
    EXPECT_LE(near[1].distance, Distance::across);
    EXPECT_EQ(near[1].distance == Distance::same_numa_node, near[0].numa_node == near[1].numa_node);
    EXPECT_EQ(context.numa_node(card_address(card)), near[0].numa_node);
  }
}

TEST(Nics, NicsHaveNoKnownDistanceToAMissingCard) {
  const Context context = make_context();
  const auto nics = context.nics();
  ASSERT_TRUE(nics);
  const auto near = context.nics_near("0000:ff:1f.7", *nics);
  ASSERT_EQ(near.size(), 2U);
  EXPECT_EQ(near[0].distance, Distance::unknown);
  EXPECT_EQ(near[0].name, "emu0");
}

}  // namespace
}  // namespace hbmwire

// SPDX-License-Identifier: MIT
#include "emulation/tool/sysfs_tree.hpp"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

namespace hbmwire::emulation::tool {
namespace {

namespace fs = std::filesystem;

// A NUMA node has its number, its list of CPUs and the same CPUs as a mask. PCI domain 1 is free.
const Machine kTwoNumaNodes = {{{0, "0-31", "0,ffffffff"}, {1, "32-63", "ffffffff,0"}}, 1, {}};

class SysfsTree : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/sysfs-test-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
  }

  void TearDown() override { fs::remove_all(root_); }

  /// Writes the tree of that node of fabric 20.
  void write(const Hardware& hardware, std::uint8_t node = 1) {
    const auto written = write_sysfs_tree(root_, hardware, kTwoNumaNodes, 20, node);
    ASSERT_TRUE(written) << written.error();
  }

  [[nodiscard]] std::string read(const fs::path& path) const {
    std::ifstream file(root_ / path);
    EXPECT_TRUE(file) << path;
    std::string text;
    std::getline(file, text);
    return text;
  }

  fs::path root_;
};

TEST_F(SysfsTree, HasTheFilesForLibibverbs) {
  write({.nics = 2, .gaudi = 0});
  EXPECT_EQ(read("class/infiniband_verbs/abi_version"), "6");
  EXPECT_EQ(read("class/infiniband_verbs/uverbs1/ibdev"), "emu1");
  EXPECT_EQ(read("class/infiniband_verbs/uverbs1/dev"), "1:3");
  EXPECT_EQ(read("class/infiniband_verbs/uverbs1/abi_version"), "1");
  EXPECT_EQ(read("class/infiniband/emu1/node_type"), "1: CA");
  EXPECT_EQ(read("class/infiniband/emu1/ports/1/link_layer"), "Ethernet");
  EXPECT_EQ(read("class/infiniband/emu1/ports/1/gids/0"),
            "fe80:0000:0000:0000:0048:42ff:fe14:0102");
  EXPECT_EQ(read("class/infiniband/emu1/ports/1/gids/3"),
            "0000:0000:0000:0000:0000:ffff:7f14:0102");
  EXPECT_EQ(read("class/infiniband/emu1/ports/1/gid_attrs/types/2"), "IB/RoCE v1");
  EXPECT_EQ(read("class/infiniband/emu1/ports/1/gid_attrs/types/3"), "RoCE v2");
}

TEST_F(SysfsTree, HasPortsOfInfiniBand) {
  Machine machine = kTwoNumaNodes;
  const GidBytes gid{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
  machine.interfaces = {{"eth0", {gid}}};
  // `infiniband` has a bit for each NIC: here only the first one has InfiniBand ports.
  const Hardware hardware{.nics = 2, .ports = 2, .gaudi = 0, .infiniband = 1};
  const auto written = write_sysfs_tree(root_, hardware, machine, 20, 2);
  ASSERT_TRUE(written) << written.error();
  std::set<std::string> lids;
  for (const std::string number : {"1", "2"}) {
    const fs::path port = "class/infiniband/emu0/ports/" + number;
    EXPECT_EQ(read(port / "link_layer"), "InfiniBand");
    EXPECT_EQ(read(port / "sm_lid"), "0xbfff");
    EXPECT_TRUE(lids.insert(read(port / "lid")).second);
    EXPECT_EQ(read(port / "gid_attrs/types/0"), "IB/RoCE v1");
    EXPECT_EQ(fs::read_symlink(root_ / port / "gid_attrs/ndevs/0"), "/proc/self/ns/mnt")
        << "a file whose read gives EINVAL, as for a GID without an interface";
    EXPECT_EQ(read(port / "gids/1"), eight_groups(GidBytes{}));
  }
  EXPECT_EQ(lids, (std::set<std::string>{"0x21", "0x22"}));
  EXPECT_EQ(read("class/infiniband/emu0/ports/1/gids/0"),
            "fe80:0000:0000:0000:" + read("class/infiniband/emu0/node_guid"));
  // The interfaces belong to the other NIC.
  EXPECT_EQ(read("class/infiniband/emu1/ports/1/link_layer"), "Ethernet");
  EXPECT_EQ(read("class/infiniband/emu1/ports/1/gids/5"), eight_groups(gid));
  EXPECT_FALSE(fs::exists(root_ / "class/infiniband/emu0/device/net"));
}

TEST_F(SysfsTree, HasTheFilesOfCards) {
  write({.nics = 0, .gaudi = 2, .gaudi_kind = CardKind::gaudi3});
  EXPECT_EQ(read("class/accel/accel1/device/device_type"), "GAUDI3");
  EXPECT_EQ(read("class/accel/accel1/device/status"), "Operational");
  EXPECT_EQ(read("class/accel/accel1/device/module_id"), "1");
  const auto bdf = read("class/accel/accel1/device/pci_addr");
  EXPECT_EQ(read("bus/pci/devices/" + bdf + "/vendor"), "0x1da3");
  EXPECT_EQ(read("bus/pci/devices/" + bdf + "/device"), "0x1060");
  EXPECT_EQ(fs::canonical(root_ / "class/accel/accel1/device"),
            fs::canonical(root_ / "bus/pci/devices" / bdf));
  EXPECT_EQ(fs::canonical(root_ / "class/accel/accel1/device/driver").filename(), "habanalabs");
  EXPECT_TRUE(fs::exists(root_ / "class/accel/accel_controlD1/dev"));
}

TEST_F(SysfsTree, HasTheFilesOfGpus) {
  write({.nics = 0, .gaudi = 0, .cuda = 2, .rocm = 1});
  std::map<std::string, fs::path> gpus;
  for (const auto& entry : fs::directory_iterator(root_ / "bus/pci/devices")) {
    std::string name;
    if (std::ifstream(entry.path() / "emulated_as") >> name)
      gpus[name] = fs::path("bus/pci/devices") / entry.path().filename();
  }
  ASSERT_EQ(gpus.size(), 3U);
  for (const char* gpu : {"cuda0", "cuda1"}) {
    EXPECT_EQ(read(gpus[gpu] / "vendor"), "0x10de");
    EXPECT_EQ(read(gpus[gpu] / "class"), "0x030200");
    EXPECT_EQ(fs::canonical(root_ / gpus[gpu] / "driver").filename(), "nvidia");
  }
  EXPECT_EQ(read(gpus["cuda1"] / "numa_node"), "1");
  EXPECT_EQ(read(gpus["rocm0"] / "vendor"), "0x1002");
  EXPECT_EQ(read(gpus["rocm0"] / "mem_info_vis_vram_total"), "206158430208");
  EXPECT_EQ(fs::canonical(root_ / gpus["rocm0"] / "driver").filename(), "amdgpu");
  EXPECT_EQ(fs::canonical(root_ / "class/drm/renderD128/device"),
            fs::canonical(root_ / gpus["rocm0"]));
}

TEST_F(SysfsTree, ShowsAWindowOf256MiBWithASmallBar) {
  write({.nics = 0, .gaudi = 0, .rocm = 1, .large_bar = false});
  EXPECT_EQ(read("class/drm/renderD128/device/mem_info_vram_total"), "206158430208");
  EXPECT_EQ(read("class/drm/renderD128/device/mem_info_vis_vram_total"), "268435456");
}

TEST_F(SysfsTree, PutsGpusBelowTheSwitchOfTheirNic) {
  write({.nics = 2, .gaudi = 1, .cuda = 2, .rocm = 2});
  const auto switch_of = [&](const fs::path& device) {
    return fs::canonical(root_ / device).parent_path().parent_path();
  };
  std::map<std::string, fs::path> switches;
  for (const auto& entry : fs::directory_iterator(root_ / "bus/pci/devices")) {
    std::string name;
    if (std::ifstream(entry.path() / "emulated_as") >> name)
      switches[name] = switch_of(fs::path("bus/pci/devices") / entry.path().filename());
  }
  EXPECT_EQ(switches["cuda0"], switch_of("class/infiniband/emu0/device"));
  EXPECT_EQ(switches["rocm0"], switches["cuda0"]);
  EXPECT_EQ(switches["cuda0"], switch_of("class/accel/accel0/device"));
  EXPECT_EQ(switches["cuda1"], switch_of("class/infiniband/emu1/device"));
  EXPECT_EQ(switches["rocm1"], switches["cuda1"]);
}

TEST_F(SysfsTree, PutsACardAndItsNicBelowOneSwitch) {
  write({.nics = 4, .gaudi = 4});
  const auto above = [&](const std::string& device) {
    return fs::canonical(root_ / "class" / device / "device").parent_path().parent_path();
  };
  std::set<fs::path> switches;
  for (int i = 0; i < 4; ++i) {
    const auto number = std::to_string(i);
    EXPECT_EQ(above("accel/accel" + number), above("infiniband/emu" + number));
    switches.insert(above("accel/accel" + number));
  }
  EXPECT_EQ(switches.size(), 4U);
  EXPECT_EQ(read("class/accel/accel1/device/numa_node"), "0");
  EXPECT_EQ(read("class/accel/accel2/device/numa_node"), "1");
  EXPECT_EQ(read("class/accel/accel2/device/local_cpulist"), "32-63");
}

TEST_F(SysfsTree, DealsTheInterfacesOutToTheNics) {
  Machine machine = kTwoNumaNodes;
  const GidBytes first{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
  GidBytes second = first;
  second[15] = 2;
  GidBytes third = first;
  third[15] = 3;
  machine.interfaces = {{"eth0", {first}}, {"eth1", {second}}, {"eth2", {third}}};
  const auto written = write_sysfs_tree(root_, {.nics = 2, .gaudi = 0}, machine, 20, 1);
  ASSERT_TRUE(written) << written.error();
  const fs::path nics = "class/infiniband";
  // Interfaces are dealt out in turn. An address has two GIDs, for RoCE v1 and v2; the odd one is
  // v2's.
  EXPECT_EQ(read(nics / "emu0/ports/1/gids/5"), eight_groups(first));
  EXPECT_EQ(read(nics / "emu0/ports/1/gids/7"), eight_groups(third));
  EXPECT_EQ(read(nics / "emu1/ports/1/gids/5"), eight_groups(second));
  EXPECT_EQ(read(nics / "emu1/ports/1/gids/6"), eight_groups(GidBytes{}));
  EXPECT_EQ(read(nics / "emu0/ports/1/gid_attrs/ndevs/7"), "eth2");
  EXPECT_EQ(fs::read_symlink(root_ / nics / "emu0/device/net/eth2"), "/sys/class/net/eth2");
  EXPECT_EQ(fs::read_symlink(root_ / nics / "emu1/device/net/eth1"), "/sys/class/net/eth1");
  EXPECT_FALSE(fs::exists(fs::symlink_status(root_ / nics / "emu1/device/net/eth0")));
}

TEST_F(SysfsTree, LeavesOutTheGidsThatDoNotFit) {
  Machine machine = kTwoNumaNodes;
  machine.interfaces = {{"eth0", {}}};
  for (std::uint8_t last = 1; last <= 40; ++last)
    machine.interfaces[0].gids.push_back(
        {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last});
  const auto written = write_sysfs_tree(root_, {.nics = 1, .gaudi = 0}, machine, 20, 1);
  ASSERT_TRUE(written) << written.error();
  const fs::path port = "class/infiniband/emu0/ports/1";
  // The table has 32 entries: four of the port itself, then two for each of 14 addresses.
  EXPECT_EQ(read(port / "gids/31"), eight_groups(machine.interfaces[0].gids[13]));
  EXPECT_EQ(read(port / "gid_attrs/types/31"), "RoCE v2");
  EXPECT_FALSE(fs::exists(root_ / port / "gids/32"));
}

TEST_F(SysfsTree, HasNoDanglingLinkAtItsLargest) {
  write({.nics = kMaxNics, .gaudi = kMaxCards, .cuda = kMaxCards, .rocm = kMaxCards});
  std::size_t links = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root_)) {
    if (!entry.is_symlink()) continue;
    ++links;
    EXPECT_TRUE(fs::exists(entry.path())) << entry.path();
    if (fs::read_symlink(entry.path()) == "/proc/self/ns/mnt") continue;  // an empty GID entry
    EXPECT_TRUE(fs::canonical(entry.path()).string().starts_with(fs::canonical(root_).string()))
        << entry.path();
  }
  EXPECT_GT(links, 200U);
  // Each group of devices has a port and a switch above it, and each device has a bridge. All have
  // their own addresses.
  const auto devices = fs::directory_iterator(root_ / "bus/pci/devices");
  EXPECT_EQ(std::distance(fs::begin(devices), fs::end(devices)),
            32 * 2 + 2 * (kMaxNics + 3 * kMaxCards));
}

TEST_F(SysfsTree, GivesEveryPortOfAFabricItsOwnAddress) {
  std::set<std::string> addresses;
  std::set<std::string> guids;
  std::set<unsigned> places;
  constexpr std::array<std::uint8_t, 2> kBothPorts{1, 2};
  for (unsigned node = 1; node <= kMaxNodes; ++node) {
    for (unsigned nic = 1; nic <= kMaxNics; ++nic) {
      for (const std::uint8_t port : kBothPorts) {
        const PortAddress address{20, static_cast<std::uint8_t>(node),
                                  static_cast<std::uint8_t>(nic), port};
        addresses.insert(address.ipv4());
        guids.insert(address.guid());
        places.insert(address.fabric_port());
      }
    }
  }
  EXPECT_EQ(addresses.size(), kMaxNodes * kMaxNics * kMaxPorts);
  EXPECT_EQ(guids.size(), kMaxNodes * kMaxNics * kMaxPorts);
  EXPECT_EQ(places.size(), kMaxNodes * kMaxNics * kMaxPorts);
  EXPECT_EQ(*places.begin(), 1U);
  EXPECT_FALSE(addresses.contains("127.0.0.1"));
}

TEST_F(SysfsTree, ReportsFilesThatItCouldNotWrite) {
  std::ofstream(root_ / "class").put('x');
  const auto written = write_sysfs_tree(root_, {}, kTwoNumaNodes, 20, 1);
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().find("cannot create"), std::string::npos) << written.error();
}

TEST(Machine, HasANumaNodeAndAFreePciDomain) {
  const auto machine = Machine::here();
  ASSERT_FALSE(machine.numa.empty());
  EXPECT_FALSE(machine.numa.front().cpulist.empty());
}

}  // namespace
}  // namespace hbmwire::emulation::tool

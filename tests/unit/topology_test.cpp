// SPDX-License-Identifier: MIT
#include "hbmwire/topology.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <hwloc.h>

#include <string>
#include <vector>

#include "topology/near.hpp"
#include "topology/pci_tree.hpp"
#include "verbs/inventory.hpp"

namespace hbmwire::topology {
namespace {

/// hwloc's XML for a machine, as `lstopo --of xml` writes it.
class MachineXml {
 public:
  explicit MachineXml(unsigned numa_nodes) : all_((1U << numa_nodes) - 1) {}

  // Each of these returns the text of an element. `inside` is the text of its children.
  std::string device(const char* address) {
    return fmt::format(R"(<object type="PCIDev" gp_index="{}" pci_busid="{}" )"
                       R"(pci_type="1200 [1da3:1020] [1da3:1020] 01" pci_link_speed="0.0"/>)",
                       ++index_, address);
  }

  std::string bridge(const char* address, const char* buses, const std::string& inside) {
    return fmt::format(
        R"(<object type="Bridge" gp_index="{}" bridge_type="1-1" depth="1" )"
        R"(bridge_pci="{}" pci_busid="{}" pci_type="0604 [fffe:0100] [0000:0000] 01" )"
        R"(pci_link_speed="0.0">{}</object>)",
        ++index_, buses, address, inside);
  }

  std::string host_bridge(const char* buses, const std::string& inside) {
    return fmt::format(R"(<object type="Bridge" gp_index="{}" bridge_type="0-1" depth="0" )"
                       R"(bridge_pci="{}">{}</object>)",
                       ++index_, buses, inside);
  }

  std::string package(unsigned number, const std::string& inside) {
    const std::string sets = sets_of(1U << number);
    index_ += 3;  // for the package, its node, and its CPU
    return fmt::format(
        R"(<object type="Package" os_index="{0}" {1} gp_index="{2}">)"
        R"(<object type="NUMANode" os_index="{0}" {1} gp_index="{3}" local_memory="1024"/>)"
        R"(<object type="PU" os_index="{0}" {1} gp_index="{4}"/>{5}</object>)",
        number, sets, index_ - 2, index_ - 1, index_, inside);
  }

  [[nodiscard]] PciTree tree(const std::string& inside) const {
    // Without libhwloc-plugins, hwloc parses XML itself, and needs lines like those of lstopo.
    const std::string text = fmt::format(
        R"(<?xml version="1.0" encoding="UTF-8"?>)"
        "\n"
        R"(<!DOCTYPE topology SYSTEM "hwloc2.dtd">)"
        "\n"
        R"(<topology version="2.0"><object type="Machine" os_index="0" {0} )"
        R"(allowed_cpuset="{1:#x}" allowed_nodeset="{1:#x}" gp_index="1000">{2}</object></topology>)",
        sets_of(all_), all_, inside);
    hwloc_topology_t raw = nullptr;
    EXPECT_EQ(hwloc_topology_init(&raw), 0);
    TopologyHandle topology(raw);
    EXPECT_EQ(hwloc_topology_set_xmlbuffer(raw, text.c_str(), static_cast<int>(text.size() + 1)),
              0);
    hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
    EXPECT_EQ(hwloc_topology_load(raw), 0) << text;
    return PciTree(std::move(topology));
  }

 private:
  static std::string sets_of(unsigned set) {
    return fmt::format(
        R"(cpuset="{0:#x}" complete_cpuset="{0:#x}" nodeset="{0:#x}" complete_nodeset="{0:#x}")",
        set);
  }

  unsigned all_;
  unsigned index_ = 1;
};

/// Two sockets. The first one has a switch with a card and a NIC, a second root port with a NIC,
/// and a second root complex with a NIC. The other socket has a NIC.
PciTree two_sockets() {
  MachineXml xml(2);
  const auto switched = xml.bridge(
      "0000:10:00.0", "0000:[11-14]",
      xml.bridge("0000:11:00.0", "0000:[12-14]",
                 xml.bridge("0000:12:00.0", "0000:[13-13]", xml.device("0000:13:00.0")) +
                     xml.bridge("0000:12:01.0", "0000:[14-14]", xml.device("0000:14:00.0"))));
  const auto alone = xml.bridge("0000:10:01.0", "0000:[15-15]", xml.device("0000:15:00.0"));
  const auto first = xml.host_bridge("0000:[10-15]", switched + alone);
  const auto second = xml.host_bridge("0000:[20-21]", xml.device("0000:21:00.0"));
  const auto other = xml.host_bridge("0000:[90-91]", xml.device("0000:91:00.0"));
  return xml.tree(xml.package(0, first + second) + xml.package(1, other));
}

constexpr const char* kReferenceCard = "0000:13:00.0";

NicDevice nic(const char* name, const char* address) {
  NicDevice made;
  made.name = name;
  made.pci_address = address;
  return made;
}

TEST(PciTree, NamesTheBridgesBetweenTwoDevices) {
  const PciTree tree = two_sockets();
  EXPECT_EQ(tree.distance(kReferenceCard, "0000:14:00.0"), Distance::same_switch);
  EXPECT_EQ(tree.distance(kReferenceCard, "0000:15:00.0"), Distance::same_host_bridge);
  EXPECT_EQ(tree.distance(kReferenceCard, "0000:21:00.0"), Distance::same_numa_node);
  EXPECT_EQ(tree.distance(kReferenceCard, "0000:91:00.0"), Distance::across);
  EXPECT_EQ(tree.distance("0000:91:00.0", kReferenceCard), Distance::across);
}

TEST(PciTree, HiddenDevicesAreUnknown) {
  const PciTree tree = two_sockets();
  for (const char* address : {"", "0000:77:00.0", "0001:14:00.0", "virtual", "0000:14"}) {
    EXPECT_EQ(tree.distance(kReferenceCard, address), Distance::unknown) << address;
    EXPECT_EQ(tree.numa_node(address), -1) << address;
  }
  EXPECT_EQ(PciTree().distance(kReferenceCard, kReferenceCard), Distance::unknown);
  EXPECT_EQ(PciTree().numa_node(kReferenceCard), -1);
}

TEST(PciTree, KnowsTheNumaNode) {
  const PciTree tree = two_sockets();
  EXPECT_EQ(tree.numa_node(kReferenceCard), 0);
  EXPECT_EQ(tree.numa_node("0000:91:00.0"), 1);
}

TEST(PciTree, DoesNotGuessANodeThatTheFirmwareDoesNotTell) {
  // Host bridges that are attached to the machine itself: their devices may be near either node.
  MachineXml xml(2);
  const auto sockets = xml.package(0, "") + xml.package(1, "");
  const PciTree tree =
      xml.tree(sockets + xml.host_bridge("0000:[10-11]", xml.device("0000:11:00.0")) +
               xml.host_bridge("0000:[20-21]", xml.device("0000:21:00.0")));
  EXPECT_EQ(tree.distance("0000:11:00.0", "0000:21:00.0"), Distance::unknown);
  EXPECT_EQ(tree.numa_node("0000:11:00.0"), -1);
}

TEST(PciTree, OnAMachineOfOneNodeAllIsNearIt) {
  MachineXml xml(1);
  const auto socket = xml.package(0, "");
  const PciTree tree =
      xml.tree(socket + xml.host_bridge("0000:[10-11]", xml.device("0000:11:00.0")) +
               xml.host_bridge("0000:[20-21]", xml.device("0000:21:00.0")));
  EXPECT_EQ(tree.distance("0000:11:00.0", "0000:21:00.0"), Distance::same_numa_node);
  EXPECT_EQ(tree.numa_node("0000:11:00.0"), 0);
}

TEST(NicsNear, ComeNearestFirstAndEquallyNearOnesInTheirOrder) {
  const PciTree tree = two_sockets();
  const std::vector<NicDevice> nics{
      nic("soft", ""),  nic("far", "0000:91:00.0"),    nic("near", "0000:14:00.0"),
      nic("soft2", ""), nic("bridge", "0000:15:00.0"), nic("node", "0000:21:00.0")};
  std::vector<std::string> names;
  for (const auto& found : nics_near(kReferenceCard, nics, tree)) names.push_back(found.name);
  EXPECT_EQ(names, (std::vector<std::string>{"near", "bridge", "node", "far", "soft", "soft2"}));
}

TEST(NicsNear, NeverProposesAGaudisOwnNic) {
  const PciTree tree = two_sockets();
  auto own = nic("hbl_0", "0000:13:00.0");
  own.scale_up = true;
  const auto found = nics_near(kReferenceCard, {own, nic("far", "0000:91:00.0")}, tree);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "far");
  EXPECT_EQ(found[0].numa_node, 1);
}

TEST(LinkRate, IsReadFromSysfsWords) {
  EXPECT_EQ(verbs::parse_rate("100 Gb/sec (4X EDR)"), 100'000'000'000U);
  EXPECT_EQ(verbs::parse_rate("2.5 Gb/sec (1X SDR)"), 2'500'000'000U);
  EXPECT_EQ(verbs::parse_rate("1600 Gb/sec (8X XDR)"), 1'600'000'000'000U);
  for (const char* text :
       {"", "fast", "100", "100 Mb/sec", "-1 Gb/sec", "1e9 Gb/sec", "nan Gb/sec"})
    EXPECT_EQ(verbs::parse_rate(text), 0U) << text;
}

}  // namespace
}  // namespace hbmwire::topology

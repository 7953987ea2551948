// SPDX-License-Identifier: MIT
#include "emulation/tool/port_tree.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "emulation/nic/state/counter_files.hpp"

namespace hbmwire::emulation::tool {
namespace {

struct Entry {
  GidBytes gid;
  const char* type;
  std::string interface;  // empty on InfiniBand
};

// As on a ConnectX, each address appears twice: once for each version of RoCE.
void add(std::vector<Entry>& table, const GidBytes& gid, const std::string& interface) {
  table.push_back({gid, "IB/RoCE v1", interface});
  table.push_back({gid, "RoCE v2", interface});
}

std::vector<Entry> gid_table(const PortAddress& address, const std::vector<Interface>& interfaces) {
  std::vector<Entry> table;
  add(table, address.link_local_gid(), "lo");
  add(table, address.ipv4_gid(), "lo");
  for (const Interface& interface : interfaces) {
    for (const GidBytes& gid : interface.gids) add(table, gid, interface.name);
  }
  // The table has a fixed size. As in the kernel, further entries are left out.
  table.resize(std::min<std::size_t>(table.size(), kGidTableLength));
  return table;
}

void write_gids(SysfsWriter& writer, const std::filesystem::path& port,
                const std::vector<Entry>& table) {
  for (std::size_t i = 0; i < kGidTableLength; ++i) {
    const auto number = std::to_string(i);
    const bool used = i < table.size();
    writer.file(port / "gids" / number, eight_groups(used ? table[i].gid : GidBytes{}));
    const auto attribute = [&](const char* name, const std::string& value) {
      const auto file = port / "gid_attrs" / name / number;
      if (!value.empty()) return writer.file(file, value);
      // The kernel answers EINVAL to a read of an empty entry's attribute. libibverbs, UCX and NCCL
      // know that answer, but do not expect a missing file. A namespace file can be opened, and
      // reading it also gives EINVAL.
      writer.link_outside(file, "/proc/self/ns/mnt");
    };
    attribute("types", used ? table[i].type : "");
    attribute("ndevs", used ? table[i].interface : "");
  }
}

struct Link {
  const char* layer;
  unsigned lid;
  unsigned subnet_manager;
  const char* capabilities;  // IBV_PORT_*: CM_SUP, and IP_BASED_GIDS on Ethernet
};

void write_attributes(SysfsWriter& writer, const std::filesystem::path& port, const Link& link) {
  writer.file(port / "pkeys/0", "0xffff");
  writer.file(port / "link_layer", link.layer);
  writer.file(port / "state", "4: ACTIVE");
  writer.file(port / "phys_state", "5: LinkUp");
  writer.file(port / "rate", "100 Gb/sec (4X EDR)");
  writer.file(port / "has_smi", "0");
  writer.file(port / "lid", fmt::format("{:#x}", link.lid));
  writer.file(port / "lid_mask_count", "0");
  writer.file(port / "sm_lid", fmt::format("{:#x}", link.subnet_manager));
  writer.file(port / "sm_sl", "0");
  writer.file(port / "cap_mask", link.capabilities);
  for (const char* counter : emulation::nic::counter_files()) writer.file(port / counter, "0");
  for (const char* counter : emulation::nic::idle_counter_files()) writer.file(port / counter, "0");
  writer.file(port / "hw_counters/lifespan", "50");  // ms by which the other counters may lag
}

}  // namespace

void write_ethernet_port(SysfsWriter& writer, const std::filesystem::path& port,
                         const PortAddress& address, const std::vector<Interface>& interfaces) {
  write_gids(writer, port, gid_table(address, interfaces));
  writer.file(port / "fabric_port", std::to_string(address.fabric_port()));
  write_attributes(writer, port, {"Ethernet", 0, 0, "0x04010000"});
}

void write_infiniband_port(SysfsWriter& writer, const std::filesystem::path& port,
                           const PortAddress& address) {
  // Linux names the type of InfiniBand's GIDs as that of RoCE v1.
  write_gids(writer, port, {{address.infiniband_gid(), "IB/RoCE v1", {}}});
  writer.file(port / "fabric_port", std::to_string(address.fabric_port()));
  write_attributes(writer, port, {"InfiniBand", address.lid(), kSubnetManagerLid, "0x00010000"});
}

}  // namespace hbmwire::emulation::tool

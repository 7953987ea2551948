// SPDX-License-Identifier: MIT
#include "tools/emulate/port_tree.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "emulation/nic/state/counter_files.hpp"

namespace hbmwire::tools::emulate {
namespace {

struct Entry {
  GidBytes gid;
  const char* type;
  std::string interface;
};

// As on a ConnectX: each address twice, once for either version of RoCE.
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
  // What does not fit is left out, as the kernel does.
  table.resize(std::min<std::size_t>(table.size(), kGidTableLength));
  return table;
}

void write_gids(SysfsWriter& writer, const std::filesystem::path& port,
                const std::vector<Entry>& table) {
  for (std::size_t i = 0; i < kGidTableLength; ++i) {
    const auto number = std::to_string(i);
    const bool used = i < table.size();
    writer.file(port / "gids" / number, eight_groups(used ? table[i].gid : GidBytes{}));
    if (used) {
      writer.file(port / "gid_attrs/types" / number, table[i].type);
      writer.file(port / "gid_attrs/ndevs" / number, table[i].interface);
    } else {
      // The kernel answers EINVAL to those who read an attribute of an empty entry, and libibverbs,
      // UCX and NCCL know that answer, but not a file that is missing. A namespace can be opened,
      // and reading it gives just that.
      for (const char* attribute : {"types", "ndevs"}) {
        writer.link_outside(port / "gid_attrs" / attribute / number, "/proc/self/ns/mnt");
      }
    }
  }
}

}  // namespace

void write_port(SysfsWriter& writer, const std::filesystem::path& port, const PortAddress& address,
                const std::vector<Interface>& interfaces) {
  write_gids(writer, port, gid_table(address, interfaces));
  writer.file(port / "fabric_port", std::to_string(address.fabric_port()));
  writer.file(port / "pkeys/0", "0xffff");
  writer.file(port / "link_layer", "Ethernet");
  writer.file(port / "state", "4: ACTIVE");
  writer.file(port / "phys_state", "5: LinkUp");
  writer.file(port / "rate", "100 Gb/sec (4X EDR)");
  writer.file(port / "has_smi", "0");
  writer.file(port / "lid", "0x0");
  writer.file(port / "lid_mask_count", "0");
  writer.file(port / "sm_lid", "0x0");
  writer.file(port / "sm_sl", "0");
  writer.file(port / "cap_mask", "0x04010000");
  for (const char* counter : emulation::nic::counter_files()) writer.file(port / counter, "0");
  for (const char* counter : emulation::nic::idle_counter_files()) writer.file(port / counter, "0");
  writer.file(port / "hw_counters/lifespan", "50");  // ms that the others may be behind
}

}  // namespace hbmwire::tools::emulate

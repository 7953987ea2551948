// SPDX-License-Identifier: MIT
#include "emulation/nic/rdma_cm/fabric_ports.hpp"

#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <system_error>

#include "emulation/nic/state/inode.hpp"
#include "emulation/nic/state/process.hpp"
#include "emulation/nic/verbs/device_info.hpp"

namespace hbmwire::emulation::nic {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kTrustNs = 100'000'000;  // how long a read of the trees is trusted
constexpr std::uint64_t kDoubtNs = 5'000'000;    // the same, if a search has found nothing
constexpr unsigned kPortActive = 4;              // "4: ACTIVE" in sysfs

/// Entries sorted by the numbers that their names end with: emu2 comes before emu10.
std::vector<fs::path> numbered(const fs::path& directory) {
  std::vector<std::pair<unsigned long, fs::path>> found;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    const auto digits = name.find_last_not_of("0123456789") + 1;
    found.emplace_back(std::strtoul(name.c_str() + digits, nullptr, 10), at->path());
  }
  std::sort(found.begin(), found.end());
  std::vector<fs::path> paths;
  paths.reserve(found.size());
  for (auto& [number, path] : found) paths.push_back(std::move(path));
  return paths;
}

}  // namespace

void FabricPorts::read_port(const fs::path& directory, Port port) {
  // Addresses are IP addresses. There is no IPoIB, so a port of InfiniBand has none.
  if (sysfs_line(directory / "link_layer") == "InfiniBand") return;
  port.number = static_cast<std::uint32_t>(std::strtoul(directory.filename().c_str(), nullptr, 10));
  port.active = sysfs_number(directory / "state", kPortActive) == kPortActive;
  // `hbmwire emulate` fills the table from its start; most entries are empty.
  for (std::uint32_t index = 0; index < kGidTableLength; ++index) {
    const std::string name = std::to_string(index);
    const Gid gid = read_gid(directory / "gids" / name);
    if (gid == Gid{}) break;
    port.gids.push_back(gid);
    port.version2.push_back(sysfs_line(directory / "gid_attrs/types" / name) == "RoCE v2");
  }
  ports_.push_back(std::move(port));
}

void FabricPorts::read_node(const fs::path& node) {
  for (const fs::path& device : numbered(node / "sys/class/infiniband")) {
    Port port;
    port.node = inode_of(node);
    port.guid = read_guid(device / "node_guid");
    for (const fs::path& directory : numbered(device / "ports")) read_port(directory, port);
  }
}

void FabricPorts::refresh(std::uint64_t trust_ns) {
  const std::uint64_t now = now_ns();
  if (read_at_ns_ != 0 && now - read_at_ns_ < trust_ns) return;
  read_at_ns_ = now;
  ports_.clear();
  std::error_code error;
  for (fs::directory_iterator at(nodes_, error), end; !error && at != end; at.increment(error)) {
    read_node(at->path());
  }
}

std::optional<CmPort> FabricPorts::find_in(const Port& port, const Gid& gid) {
  std::optional<CmPort> found;
  for (std::uint32_t index = 0; index < port.gids.size(); ++index) {
    if (port.gids[index] != gid || gid == Gid{}) continue;
    if (found && !port.version2[index]) continue;
    found = CmPort{port.guid, gid, index, port.number};
    if (port.version2[index]) break;
  }
  return found;
}

template <typename Search>
auto FabricPorts::find(Search search) {
  const std::lock_guard guard(mutex_);
  refresh(kTrustNs);
  auto found = search();
  if (!found) {
    refresh(kDoubtNs);
    found = search();
  }
  return found;
}

std::optional<CmPort> FabricPorts::port_with(std::uint64_t node, const Gid& gid) {
  return find([&]() -> std::optional<CmPort> {
    for (const Port& port : ports_) {
      if (port.node != node) continue;
      if (auto found = find_in(port, gid)) return found;
    }
    return std::nullopt;
  });
}

const Gid* FabricPorts::gid_for(const Port& port, std::uint16_t family) {
  const Gid* first = nullptr;
  for (const Gid& gid : port.gids) {
    if (gid == Gid{}) continue;
    if (is_ipv4_mapped(gid) == (family != AF_INET6)) return &gid;
    if (first == nullptr) first = &gid;
  }
  return first;
}

std::optional<CmPort> FabricPorts::loopback_port(std::uint64_t node, std::uint16_t family) {
  return find([&]() -> std::optional<CmPort> {
    const Port* chosen = nullptr;
    for (const Port& port : ports_) {
      if (port.node != node || (chosen != nullptr && !port.active)) continue;
      chosen = &port;
      if (port.active) break;
    }
    const Gid* const gid = chosen == nullptr ? nullptr : gid_for(*chosen, family);
    return gid == nullptr ? std::nullopt : find_in(*chosen, *gid);
  });
}

bool FabricPorts::is_up(const CmPort& wanted) {
  return find([&] {
    return std::any_of(ports_.begin(), ports_.end(), [&](const Port& port) {
      return port.guid == wanted.guid && port.number == wanted.port && port.active;
    });
  });
}

bool FabricPorts::exists(const Gid& gid) {
  return find([&] {
    return std::any_of(ports_.begin(), ports_.end(),
                       [&](const Port& port) { return find_in(port, gid).has_value(); });
  });
}

std::optional<CmPort> FabricPorts::port_towards(const Gid& gid) {
  return find([&]() -> std::optional<CmPort> {
    std::optional<CmPort> first;
    for (const Port& port : ports_) {
      if (port.node != own_node_) continue;
      for (const Gid& ours : port.gids) {
        // Addresses of one fabric differ only in the last two bytes, which are node and NIC:
        // 127.FABRIC.NODE.NIC, fe80::..:FABRIC:NODE:NIC.
        if (!std::equal(ours.begin(), ours.begin() + 14, gid.begin())) continue;
        if (ours.back() == gid.back()) return find_in(port, ours);
        if (!first) first = find_in(port, ours);
      }
    }
    return first;
  });
}

}  // namespace hbmwire::emulation::nic

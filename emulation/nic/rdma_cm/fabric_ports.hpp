// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <vector>

#include "emulation/nic/rdma_cm/address.hpp"

namespace hbmwire::emulation::nic {

/// Which node's NIC has which address: the GID tables of all nodes of a fabric, as their sysfs
/// trees show them. Nodes come, go and change theirs, so that what was read is trusted for a moment
/// only.
class FabricPorts {
 public:
  FabricPorts(std::filesystem::path fabric, std::uint64_t own_node)
      : nodes_(fabric / "nodes"), own_node_(own_node) {}

  /// The node's first port that has this GID. A GID of RoCE v2 is preferred to its twin of v1.
  std::optional<CmPort> port_with(std::uint64_t node, const Gid& gid);

  /// The port that loopback addresses stand for: the node's first active one.
  std::optional<CmPort> loopback_port(std::uint64_t node, std::uint16_t family);

  /// Whether the port's link is up.
  bool is_up(const CmPort& port);

  /// Whether any node has it.
  bool exists(const Gid& gid);

  /// The port of our node that goes to another node's GID of the emulation's own kind (IPv4 in
  /// 127/8, link-local): the NIC of the same number, or else the first.
  std::optional<CmPort> port_towards(const Gid& gid);

 private:
  struct Port {
    std::uint64_t node = 0;
    std::uint64_t guid = 0;
    std::uint32_t number = 0;
    bool active = false;
    std::vector<Gid> gids;
    std::vector<bool> version2;
  };

  /// Reads the trees again if what is known is older than `trust_ns`.
  void refresh(std::uint64_t trust_ns);

  /// What `look` finds; what it does not find may have come since the trees were read.
  template <typename Look>
  auto find(Look look);

  void read_node(const std::filesystem::path& node);
  void read_port(const std::filesystem::path& directory, Port port);
  static std::optional<CmPort> find_in(const Port& port, const Gid& gid);

  /// A port's first GID of the family, or else its first; null when it has none.
  static const Gid* gid_for(const Port& port, std::uint16_t family);

  std::mutex mutex_;
  std::filesystem::path nodes_;
  std::uint64_t own_node_;
  std::uint64_t read_at_ns_ = 0;
  std::vector<Port> ports_;
};

}  // namespace hbmwire::emulation::nic

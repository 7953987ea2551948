// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <vector>

#include "emulation/nic/rdma_cm/address.hpp"

namespace hbmwire::emulation::nic {

/// The addresses of all NICs of a fabric, from the GID tables in the sysfs trees of its nodes.
/// Nodes come, go and change their tables, so the result of a read is trusted only for a moment.
class FabricPorts {
 public:
  FabricPorts(std::filesystem::path fabric, std::uint64_t own_node)
      : nodes_(fabric / "nodes"), own_node_(own_node) {}

  /// The node's first port that has this GID. A GID of RoCE v2 is preferred to the same GID of v1.
  std::optional<CmPort> port_with(std::uint64_t node, const Gid& gid);

  /// The port for loopback addresses: the node's first active one.
  std::optional<CmPort> loopback_port(std::uint64_t node, std::uint16_t family);

  /// Whether the port's link is up.
  bool is_up(const CmPort& port);

  /// Whether any node has the GID.
  bool exists(const Gid& gid);

  /// The port of our node for reaching another node's GID of the emulation's own kind (IPv4 in
  /// 127/8, link-local). It is the port of the NIC with the same number, or else the first one.
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

  /// Reads the trees again if the last read is older than `trust_ns`.
  void refresh(std::uint64_t trust_ns);

  /// Returns the result of `search`. If that finds nothing, reads the trees again and calls
  /// `search` once more, because the trees may have changed.
  template <typename Search>
  auto find(Search search);

  void read_node(const std::filesystem::path& node);
  void read_port(const std::filesystem::path& directory, Port port);
  static std::optional<CmPort> find_in(const Port& port, const Gid& gid);

  /// A port's first GID of the family, or else its first GID; null if it has none.
  static const Gid* gid_for(const Port& port, std::uint16_t family);

  std::mutex mutex_;
  std::filesystem::path nodes_;
  std::uint64_t own_node_;
  std::uint64_t read_at_ns_ = 0;
  std::vector<Port> ports_;
};

}  // namespace hbmwire::emulation::nic

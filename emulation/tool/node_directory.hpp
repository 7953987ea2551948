// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>

#include "emulation/tool/file_lock.hpp"
#include "emulation/tool/sysfs_tree.hpp"

namespace hbmwire::emulation::tool {

/// What a node was set up with; kept in <node>/config, so that those who join need not be told
/// again.
struct NodeConfig {
  Hardware hardware;
  std::uint8_t number = 0;  ///< 1 to kMaxNodes, of its own within the fabric
};

/// The functions below expect the fabric's lock to be held.

/// Every process of a node holds this file locked (shared); the kernel lets go when the last one is
/// gone.
std::filesystem::path users_file(const std::filesystem::path& node);

/// The configuration of the kernel that the node's GPUs are below: it can what the real one perhaps
/// can't.
std::filesystem::path kernel_config_file(const std::filesystem::path& node);

Status create_node(const std::filesystem::path& node, const NodeConfig& config,
                   std::uint8_t fabric);

Result<NodeConfig> read_config(const std::filesystem::path& node);

/// Whether any process is in the node.
bool is_used(const std::filesystem::path& node);

/// Removes a node that no process is in. False when one is.
bool remove_node_if_unused(const std::filesystem::path& node);

}  // namespace hbmwire::emulation::tool

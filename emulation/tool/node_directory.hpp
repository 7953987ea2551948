// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>

#include "emulation/tool/file_lock.hpp"
#include "emulation/tool/sysfs_tree.hpp"

namespace hbmwire::emulation::tool {

/// The configuration of a node. It is stored in <node>/config, so that joining processes need not
/// be told again.
struct NodeConfig {
  Hardware hardware;
  std::uint8_t number = 0;  ///< 1 to kMaxNodes, unique within the fabric
};

/// The functions below require that the fabric's lock is held.

/// Every process of a node holds a shared lock on this file. The kernel releases it when the last
/// process ends.
std::filesystem::path users_file(const std::filesystem::path& node);

/// The kernel configuration for the node's GPUs. It has options that the real kernel's may lack.
std::filesystem::path kernel_config_file(const std::filesystem::path& node);

Status create_node(const std::filesystem::path& node, const NodeConfig& config,
                   std::uint8_t fabric);

Result<NodeConfig> read_config(const std::filesystem::path& node);

/// Whether any process is in the node.
bool is_used(const std::filesystem::path& node);

/// Removes a node that no process is in. Returns false if a process is in it.
bool remove_node_if_unused(const std::filesystem::path& node);

}  // namespace hbmwire::emulation::tool

// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>

#include "emulation/common/world.hpp"
#include "emulation/tool/file_lock.hpp"
#include "emulation/tool/options.hpp"

namespace hbmwire::emulation::tool {

/// A process's membership of a node. While it holds `lock`, no other process joins or leaves the
/// fabric.
struct Membership {
  emulation::World world;
  Hardware hardware;
  Fd users;  ///< inherited by COMMAND and its children; the node exists as long as it is held
  Fd lock;
};

/// The directory of this user's fabrics: <parent>/hbmwire-<uid>.
std::filesystem::path base_directory(const std::filesystem::path& parent);

/// Creates or joins the node that the options ask for.
Result<Membership> join(const Options& options);

/// The world that the options name. Without --name it is the one around this program, if there is
/// one.
Result<emulation::World> running_world(const Options& options);

/// Removes the node, then the fabric, then the base, each if no process is in it. Returns false
/// while the node is in use.
bool remove_if_unused(const emulation::World& world);

/// Removes the remains of killed runs.
void sweep(const std::filesystem::path& base);

}  // namespace hbmwire::emulation::tool

// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "emulation/common/world.hpp"
#include "emulation/tool/status.hpp"

namespace hbmwire::emulation::tool {

/// What --link asks for.
struct LinkChange {
  unsigned nic = 0;
  unsigned port = 0;  ///< 0: every port of the NIC
  bool up = true;

  bool operator==(const LinkChange&) const = default;
};

/// "emu0=down", "emu1/2=up".
Result<LinkChange> parse_link(std::string_view text);

/// Makes the changes to the node, one after the other. All of them, or none when the node lacks one
/// of the ports. The fabric's lock is held.
Status change_links(const emulation::World& world, const std::vector<LinkChange>& changes);

}  // namespace hbmwire::emulation::tool

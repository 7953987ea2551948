// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "emulation/common/world.hpp"
#include "emulation/tool/status.hpp"

namespace hbmwire::emulation::tool {

/// A change that --link requests.
struct LinkChange {
  unsigned nic = 0;
  unsigned port = 0;  ///< 0: every port of the NIC
  bool up = true;

  bool operator==(const LinkChange&) const = default;
};

/// Parses "emu0=down" or "emu1/2=up".
Result<LinkChange> parse_link(std::string_view text);

/// Makes the changes to the node, one after the other; none of them if the node lacks one of the
/// ports. The fabric's lock is held.
Status change_links(const emulation::World& world, const std::vector<LinkChange>& changes);

}  // namespace hbmwire::emulation::tool

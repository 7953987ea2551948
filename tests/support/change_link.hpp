// SPDX-License-Identifier: MIT
#pragma once

#include <string>

namespace hbmwire::test {

/// Runs `hbmwire emulate --link CHANGE` ("emu0=down") for the node of this program. Returns whether
/// it succeeded.
[[nodiscard]] bool change_link(const std::string& change);

}  // namespace hbmwire::test

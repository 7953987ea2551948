// SPDX-License-Identifier: MIT
#pragma once

#include <string>

namespace hbmwire::test {

/// `hbmwire emulate --link CHANGE` ("emu0=down") in the node around this program: whether it went
/// well.
[[nodiscard]] bool change_link(const std::string& change);

}  // namespace hbmwire::test

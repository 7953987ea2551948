// SPDX-License-Identifier: MIT
#pragma once

#include <string>

namespace hbmwire::conformance {

/// What the running case gave to source(); the program's listener clears and prints it.
std::string& current_source();

}  // namespace hbmwire::conformance

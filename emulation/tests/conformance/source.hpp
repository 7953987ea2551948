// SPDX-License-Identifier: MIT
#pragma once

#include <string>

namespace hbmwire::conformance {

/// The text that the running case has passed to source(). The program's listener prints and clears
/// it.
std::string& current_source();

}  // namespace hbmwire::conformance

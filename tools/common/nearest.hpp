// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hbmwire::tools {

/// The entry of `known` that `word` probably means: at most two letters (one in a short word) are
/// wrong, missing, swapped or superfluous, or `word` (of four letters or more) is the beginning of
/// only this entry. Empty if there is none.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace hbmwire::tools

// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hbmwire::tools {

/// The one of `known` that `word` was probably meant to be: at most two letters are wrong, missing,
/// swapped or too many (one in a short word), or the word is the beginning of that one alone.
/// Nothing when none is so near.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace hbmwire::tools

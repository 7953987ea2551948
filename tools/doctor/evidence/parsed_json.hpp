// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

namespace hbmwire::tools::doctor {

/// Keeps objects in a std::map, so that a foreign object with many keys takes no quadratic time.
using SortedJson = nlohmann::json;

/// A value, or the fault of a foreign text without a final stop: "it is no JSON".
template <class T>
using Foreign = tl::expected<T, std::string>;

/// Parses a foreign text within the limits of an archive (record.hpp).
[[nodiscard]] Foreign<SortedJson> parse_bounded(std::string_view text);

}  // namespace hbmwire::tools::doctor

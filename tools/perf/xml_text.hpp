// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

namespace hbmwire::tools::perf {

/// A text as it may stand in an XML element or attribute: the characters that XML reserves are
/// escaped, and everything but printable ASCII is replaced by '?'.
[[nodiscard]] std::string xml_text(std::string_view text);

}  // namespace hbmwire::tools::perf

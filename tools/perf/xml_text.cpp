// SPDX-License-Identifier: MIT
#include "tools/perf/xml_text.hpp"

namespace hbmwire::tools::perf {

std::string xml_text(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '&') {
      safe += "&amp;";
    } else if (c == '<') {
      safe += "&lt;";
    } else if (c == '>') {
      safe += "&gt;";
    } else if (c == '"') {
      safe += "&quot;";
    } else {
      safe += byte < 0x20 || byte > 0x7e ? '?' : c;
    }
  }
  return safe;
}

}  // namespace hbmwire::tools::perf

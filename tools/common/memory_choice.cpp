// SPDX-License-Identifier: MIT
#include "tools/common/memory_choice.hpp"

namespace hbmwire::tools {

std::optional<MemoryChoice> parse_memory(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  MemoryChoice choice;
  if (colon != std::string_view::npos) {
    choice.device = text.substr(colon + 1);
    if (choice.device.empty()) return std::nullopt;
  }
  for (const MemoryType type : kAllocatedTypes) {
    if (name != to_string(type)) continue;
    if (type == MemoryType::host && !choice.device.empty()) return std::nullopt;
    choice.type = type;
    return choice;
  }
  return std::nullopt;
}

}  // namespace hbmwire::tools

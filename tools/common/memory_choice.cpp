// SPDX-License-Identifier: MIT
#include "tools/common/memory_choice.hpp"

#include <algorithm>

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

bool is_chosen(const MemoryChoice& choice, const DeviceInfo& device, std::size_t index) {
  if (choice.type != device.type) return false;
  return choice.device.empty() || choice.device == device.pci_address ||
         choice.device == std::to_string(index);
}

bool Selection::has(const DeviceInfo& device, std::size_t index) const {
  return memories.empty() || std::ranges::any_of(memories, [&](const MemoryChoice& choice) {
           return is_chosen(choice, device, index);
         });
}

}  // namespace hbmwire::tools

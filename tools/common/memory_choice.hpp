// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "hbmwire/memory.hpp"

namespace hbmwire::tools {

/// A type of memory, and optionally a device: "gaudi", "cuda:1", "rocm:0000:33:00.0". Empty for
/// other texts.
struct MemoryChoice {
  MemoryType type = MemoryType::host;
  std::string device;

  bool operator==(const MemoryChoice&) const = default;
};

/// The types of memory that the tools can allocate.
inline constexpr std::array kAllocatedTypes{MemoryType::gaudi, MemoryType::cuda, MemoryType::rocm,
                                            MemoryType::host};

[[nodiscard]] std::optional<MemoryChoice> parse_memory(std::string_view text);

}  // namespace hbmwire::tools

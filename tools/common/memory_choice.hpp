// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"

namespace hbmwire::tools {

/// A type of memory, and optionally a device: "gaudi", "cuda:1", "rocm:0000:33:00.0".
struct MemoryChoice {
  MemoryType type = MemoryType::host;
  std::string device;

  bool operator==(const MemoryChoice&) const = default;
};

/// The types of memory that the tools can allocate.
inline constexpr std::array kAllocatedTypes{MemoryType::gaudi, MemoryType::cuda, MemoryType::rocm,
                                            MemoryType::host};

/// Empty for texts that are no MemoryChoice.
[[nodiscard]] std::optional<MemoryChoice> parse_memory(std::string_view text);

/// Whether a device is meant; `index`: its place in MemoryProbe::devices.
[[nodiscard]] bool is_chosen(const MemoryChoice& choice, const DeviceInfo& device,
                             std::size_t index);

/// The NICs and memories that the user asked for.
struct Selection {
  std::vector<std::string> nics;       ///< "mlx5_0", "mlx5_0:2"; empty means all
  std::vector<MemoryChoice> memories;  ///< empty means all

  /// Whether a device is among the memories.
  [[nodiscard]] bool has(const DeviceInfo& device, std::size_t index) const;
};

}  // namespace hbmwire::tools

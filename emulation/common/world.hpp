// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace hbmwire::emulation {

inline constexpr const char* kFabricVariable = "HBMWIRE_EMULATION_FABRIC";
inline constexpr const char* kNodeVariable = "HBMWIRE_EMULATION_NODE";
inline constexpr const char* kFaultsVariable = "HBMWIRE_EMULATION_FAULTS";
inline constexpr const char* kQuietVariable = "HBMWIRE_EMULATION_QUIET";

/// The directories of the emulated hardware of this process (emulation/docs/architecture.md lists
/// the files).
struct World {
  std::filesystem::path fabric;
  std::filesystem::path node;

  /// The world that `hbmwire emulate` has put this process into. Returns nullopt outside a world.
  static std::optional<World> from_environment();

  [[nodiscard]] std::string node_name() const { return node.filename().string(); }

  [[nodiscard]] std::filesystem::path sysfs() const { return node / "sys"; }

  /// The folder of a card. `family` is "gaudi", "cuda" or "rocm".
  [[nodiscard]] std::filesystem::path card(std::string_view family, unsigned index) const {
    return node / (std::string(family) + std::to_string(index));
  }
};

}  // namespace hbmwire::emulation

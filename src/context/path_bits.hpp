// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "hbmwire/memory.hpp"

namespace hbmwire::detail {

/// A bit for each Path.
using PathBits = std::uint16_t;

[[nodiscard]] constexpr PathBits bit_of(Path path) noexcept {
  return static_cast<PathBits>(1U << static_cast<unsigned>(path));
}

[[nodiscard]] constexpr bool has_path(PathBits paths, Path path) noexcept {
  return (unsigned{paths} >> static_cast<unsigned>(path) & 1U) != 0;
}

// The order counts: a transfer that reaches memory over two paths reports the larger one, the worse
// of the two.
static_assert(Path::host < Path::zero_copy && Path::zero_copy < Path::peer_memory &&
              Path::peer_memory < Path::staged && Path::staged < Path::copy &&
              Path::copy < Path::tcp && Path::tcp < Path::ipc && Path::ipc < Path::shared_memory);

/// Whether a NIC reads and writes the peer's memory on this path: the peer need not take part then.
[[nodiscard]] constexpr bool is_by_nic(Path path) noexcept { return path < Path::staged; }

}  // namespace hbmwire::detail

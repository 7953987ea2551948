// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace hbmwire {

/// Where a process of the same node gets the dma-buf of a region: a value that travels in a memory
/// key.
struct AttachAddress {
  std::string socket;  ///< name of an abstract socket, unix(7); at most 100 bytes
  std::array<std::uint8_t, 16> secret{};  ///< random: who has it may attach
  bool operator==(const AttachAddress&) const = default;
};

}  // namespace hbmwire

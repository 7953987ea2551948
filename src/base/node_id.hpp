// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace hbmwire {

/// Which running kernel this is: two processes that have the same one are on one machine.
using NodeId = std::array<std::uint8_t, 16>;

/// All zero: unknown, and nobody's.
inline constexpr NodeId kUnknownNode{};

/// This machine's, until it boots again (/proc/sys/kernel/random/boot_id, random(4)); kUnknownNode
/// where that can't be read. Containers of one machine have it in common, virtual machines do not.
/// Thread-safe.
[[nodiscard]] const NodeId& node_id() noexcept;

/// What that file's text says, 32 hexadecimal digits with dashes between; kUnknownNode: none of it.
[[nodiscard]] NodeId node_id_of(std::string_view text) noexcept;

}  // namespace hbmwire

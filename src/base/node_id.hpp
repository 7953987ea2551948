// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace hbmwire {

/// Identifies the running kernel: two processes with the same id are on one machine.
using NodeId = std::array<std::uint8_t, 16>;

/// All zero: unknown. No machine has this id.
inline constexpr NodeId kUnknownNode{};

/// This machine's id, until it boots again (/proc/sys/kernel/random/boot_id, random(4));
/// kUnknownNode if that cannot be read. Containers on one machine share it, virtual machines do
/// not. Thread-safe.
[[nodiscard]] const NodeId& node_id() noexcept;

/// Parses the text of that file: 32 hexadecimal digits with dashes between. Returns kUnknownNode
/// for any other text.
[[nodiscard]] NodeId node_id_of(std::string_view text) noexcept;

/// The name by which this machine calls itself (gethostname(2)); "?" if it has none.
[[nodiscard]] std::string host_name();

}  // namespace hbmwire

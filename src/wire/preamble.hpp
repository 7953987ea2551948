// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace hbmwire::wire {

/// The length of what every control connection begins with, both ways: eight bytes that no other
/// protocol sends, a version, and six bytes to be zero until they are needed.
inline constexpr std::size_t kPreambleBytes = 16;
/// Before each message: length u32, type u16.
inline constexpr std::size_t kFrameHeaderBytes = 6;

/// This side's.
[[nodiscard]] std::array<std::byte, kPreambleBytes> preamble() noexcept;

/// The kinds of peers, by their preambles.
enum class Greeted { same_version, other_version, other_protocol };

[[nodiscard]] Greeted look_at_preamble(std::span<const std::byte, kPreambleBytes> theirs) noexcept;

}  // namespace hbmwire::wire

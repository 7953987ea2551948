// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hbmwire/memory_key.hpp"

namespace hbmwire::wire {

// The format of version 3 stands in docs/memory-keys.md.
inline constexpr std::uint16_t kMemoryKeyVersion = 3;
inline constexpr std::size_t kMaxKeyNics = 64;       // of one node: more than any has
inline constexpr std::size_t kMaxSocketBytes = 100;  // AttachAddress::socket
inline constexpr std::size_t kMaxKeyBytes = 52 + kMaxKeyNics * 20 + 2 + kMaxSocketBytes + 16 + 4;

/// Whether `info` can stand in a key; nothing else is ever encoded or decoded.
[[nodiscard]] bool is_sane(const MemoryKeyInfo& info) noexcept;

/// Its part of that.
[[nodiscard]] bool is_sane(const std::vector<MemoryKeyNic>& nics) noexcept;

/// `info` must be sane.
[[nodiscard]] std::vector<std::byte> encode(const MemoryKeyInfo& info);

/// What encode() gave, and nothing else: of two different byte strings at most one decodes to the
/// same value. Errors: Errc::protocol, Stage::connect.
[[nodiscard]] Result<MemoryKeyInfo> decode_memory_key(std::span<const std::byte> bytes);

/// CRC-32C (Castagnoli; RFC 3720, B.4): shows that bytes were changed by accident.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes) noexcept;

}  // namespace hbmwire::wire

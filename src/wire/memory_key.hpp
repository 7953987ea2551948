// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hbmwire/memory_key.hpp"

namespace hbmwire::wire {

// docs/memory-keys.md describes the format of version 3.
inline constexpr std::uint16_t kMemoryKeyVersion = 3;
inline constexpr std::size_t kMaxKeyNics = 64;       // of one node: more than any has
inline constexpr std::size_t kMaxSocketBytes = 100;  // AttachAddress::socket
// The fields, the NICs, the attach socket with its length, its secret, and the checksum.
inline constexpr std::size_t kMaxKeyBytes = 52 + kMaxKeyNics * 20 + 2 + kMaxSocketBytes + 16 + 4;

/// Whether `info` may be in a key. Other values are never encoded nor decoded.
[[nodiscard]] bool is_sane(const MemoryKeyInfo& info) noexcept;

/// The part of that check for NICs.
[[nodiscard]] bool is_sane(const std::vector<MemoryKeyNic>& nics) noexcept;

/// `info` must be sane.
[[nodiscard]] std::vector<std::byte> encode(const MemoryKeyInfo& info);

/// Reads the output of encode() and nothing else: no two different byte strings decode to the same
/// value. Errors: Errc::protocol, Stage::connect.
[[nodiscard]] Result<MemoryKeyInfo> decode_memory_key(std::span<const std::byte> bytes);

/// CRC-32C (Castagnoli; RFC 3720, B.4): detects accidental changes, not malicious ones.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes) noexcept;

}  // namespace hbmwire::wire

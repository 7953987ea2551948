// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// Bytes that tests move and look at. Compiled without the sanitizers: megabytes of them, byte by
/// byte, would take most of a sanitizer's run, and no other thread uses them yet, or still.
namespace hbmwire::test {

/// `size_bytes` bytes that look like noise, the same for the same `seed`.
[[nodiscard]] std::vector<std::byte> pattern(std::uint64_t size_bytes, unsigned seed);

/// `length` bytes of `seed`'s pattern from `from` on, at `offset` of `all`.
void overlay(std::span<std::byte> all, std::uint64_t offset, std::uint64_t from, unsigned seed,
             std::uint64_t length);

/// Whether they have the same length and contents.
[[nodiscard]] bool same_bytes(std::span<const std::byte> one, std::span<const std::byte> other);

}  // namespace hbmwire::test

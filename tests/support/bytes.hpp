// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// Bytes that tests move and compare. Compiled without the sanitizers: megabytes of single-byte
/// accesses would dominate a sanitizer's run. ThreadSanitizer does not see them, so no other thread
/// may access the bytes at that time.
namespace hbmwire::test {

/// `size_bytes` bytes that look like noise; the same for equal seeds.
[[nodiscard]] std::vector<std::byte> pattern(std::uint64_t size_bytes, unsigned seed);

/// Copies `length` bytes of the pattern of `seed`, from `from` on, to `offset` in `all`.
void overlay(std::span<std::byte> all, std::uint64_t offset, std::uint64_t from, unsigned seed,
             std::uint64_t length);

/// Whether both have the same length and contents.
[[nodiscard]] bool same_bytes(std::span<const std::byte> one, std::span<const std::byte> other);

}  // namespace hbmwire::test

// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>

#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"

namespace hbmwire {

/// The kind of memory that a call needs. Pages that a NIC uses are locked.
enum class Memory : std::uint8_t { any, locked };

/// Implements host_memory_room(). `root` is the folder above /proc and the mounts that it names;
/// tests give their own. A file that cannot be read sets no limit.
[[nodiscard]] MemoryRoom memory_room(const std::filesystem::path& root = "/");

/// Bytes, for a call whose need is unknown: a process with less room counts as being out of memory.
inline constexpr std::uint64_t kUnknownNeed = std::uint64_t{64} << 20U;

/// For a call that found no memory: the limit that leaves no room for `bytes`. If every limit
/// leaves room, the answer is a guess. For locked memory it is the limit of locked memory, if this
/// process has one, because the kernel does not tell how much of that is in use. Otherwise, if the
/// need is unknown, it is a limit of the process, if one is set, because few processes have one.
[[nodiscard]] Hint memory_hint(Memory kind, std::uint64_t bytes = kUnknownNeed) noexcept;

}  // namespace hbmwire

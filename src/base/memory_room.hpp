// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>

#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"

namespace hbmwire {

/// The use of memory: pages that a NIC holds are locked, too.
enum class Memory : std::uint8_t { any, locked };

/// host_memory_room(). `root`: where /proc and the mounts that it names are. A file that can't be
/// read limits nothing.
[[nodiscard]] MemoryRoom memory_room(const std::filesystem::path& root = "/");

/// Stands for the need of a call that does not say how much: a process with less room has none.
inline constexpr std::uint64_t kUnknownNeed = std::uint64_t{64} << 20U;

/// For a call that found no memory: the limit that leaves no room for `bytes`. Where all of them
/// do, the limit of locked memory for what is locked, of which the kernel tells no usage, if this
/// process has one; else, where a driver may have wanted more than is known, a limit of the
/// process, which is rarely set.
[[nodiscard]] Hint memory_hint(Memory kind, std::uint64_t bytes = kUnknownNeed) noexcept;

}  // namespace hbmwire

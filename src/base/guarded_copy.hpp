// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "hbmwire/error.hpp"

/// Copies by this CPU to and from memory of the application's, which it may have unmapped,
/// protected or truncated since it was registered. The kernel makes them (process_vm_readv(2) of
/// this process itself) and reports EFAULT where a memcpy would end the process by SIGSEGV or
/// SIGBUS. All of it is thread-safe.
///
/// One call costs 0.35 us more than memcpy, and each page of 4 KiB 0.1 us (in the cache) to 0.5 us:
/// too much for small messages by a NIC, whose registration pins the pages (docs/registration.md).
///
/// Where the process may not make that call (a seccomp profile, a kernel without
/// CONFIG_CROSS_MEMORY_ATTACH) the bytes go through a pipe, which is as safe and takes longer.
namespace hbmwire {

/// `ours` does not go away. False: not all of `theirs` can be read; `ours` may hold some of it.
[[nodiscard]] bool copy_from_application(std::span<std::byte> ours,
                                         const std::byte* theirs) noexcept;

/// False: not all of `theirs` can be written; some of it may have been.
[[nodiscard]] bool copy_to_application(std::byte* theirs, std::span<const std::byte> ours) noexcept;

/// Whether a byte can be read now.
[[nodiscard]] bool can_read(const std::byte* theirs) noexcept;

/// Whether the aligned 4 bytes at `theirs` can be written now. Changes nothing.
[[nodiscard]] bool can_write(std::byte* theirs) noexcept;

/// The error of a copy that was refused.
[[nodiscard]] Error memory_gone(Stage stage, std::string_view subject) noexcept;

}  // namespace hbmwire

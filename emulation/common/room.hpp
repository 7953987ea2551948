// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>

namespace hbmwire::emulation {

/// Faults pages in, as the kernel does when it pins them; with `writable` for writing. Returns 0,
/// or EFAULT if the range is not mapped, not writable or has no room in its file system.
int populate(const void* address, std::size_t length, bool writable) noexcept;

/// Makes sure that pages of the emulated hardware's files have room. Such a file takes room as it
/// is written, and in a full file system the first touch of a page kills the process (SIGBUS). So
/// the pages are allocated now if little is free, as in a container's /dev/shm of 64 MiB. If much
/// is free, nothing is done. `file` is the file that is mapped at `address`, or a folder above it.
/// Returns 0 or ENOSPC. The latter is reported on standard error once per process, because the
/// libraries above do not know how their device stores its memory.
int reserve(const char* file, const void* address, std::size_t length, bool writable) noexcept;

}  // namespace hbmwire::emulation

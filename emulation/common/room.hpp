// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>

namespace hbmwire::emulation {

/// Brings pages in, as the kernel does when it pins them: for writing where they will be written.
/// 0; EFAULT for what is not mapped, not writable, or has no room in its file system.
int populate(const void* address, std::size_t length, bool writable) noexcept;

/// Makes sure that pages of the emulated hardware's files have room. Such a file takes room as it
/// is written, and in a full file system the first touch of a page ends the process (SIGBUS). Where
/// little is free, as in a container's /dev/shm of 64 MiB, the pages are therefore taken now; where
/// there is plenty nothing happens. `file`: the file that is mapped at `address`, or a folder above
/// it. 0, or ENOSPC, which is told on standard error once a process: the libraries above can't know
/// what their device consists of.
int reserve(const char* file, const void* address, std::size_t length, bool writable) noexcept;

}  // namespace hbmwire::emulation

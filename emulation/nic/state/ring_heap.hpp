// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire::emulation::nic {

class Process;

/// The initial contents that a user needs in a block. The smallest blocks of one kind lie side by
/// side, because they are mostly taken and freed together.
enum class Holds : std::uint8_t { anything, zeros };

/// Allocates a block for a ring in the shared file; sizes are powers of two. Header::allocation is
/// held. Returns the offset of a block of at least `bytes`, or 0 if the heap is full.
std::uint64_t allocate_ring(Process& process, std::uint64_t bytes, Holds wanted = Holds::anything);

/// Frees a block. Header::allocation is held. Its memory goes back to the system, at once or soon.
void free_ring(Process& process, std::uint64_t offset, std::uint64_t bytes,
               Holds wanted = Holds::anything);

/// Frees every block that no claimed record has. A killed process may have left blocks that neither
/// a record has nor the heap counts as free.
void rebuild_heap(Process& process);

/// Bytes of the blocks that are in use.
std::uint64_t ring_bytes_in_use(Process& process);

}  // namespace hbmwire::emulation::nic

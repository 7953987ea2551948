// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire::emulation::nic {

class Process;

/// The contents that its user wants a block to have at first. Small ones of one kind lie side by
/// side, as they mostly come and go together.
enum class Holds : std::uint8_t { anything, zeros };

/// Blocks for rings in the shared file, in power-of-two sizes. Both are called with
/// Header::allocation held. Offset of a block of at least `bytes`; 0 when the heap is full.
std::uint64_t allocate_ring(Process& process, std::uint64_t bytes, Holds wanted = Holds::anything);

/// Gives a block back, and its memory to the system, at once or soon.
void free_ring(Process& process, std::uint64_t offset, std::uint64_t bytes,
               Holds wanted = Holds::anything);

/// Makes everything free that no claimed record has: a process that was killed may have had a block
/// that was neither a record's nor free.
void rebuild_heap(Process& process);

/// Bytes of the blocks that are not free.
std::uint64_t ring_bytes_in_use(Process& process);

}  // namespace hbmwire::emulation::nic

// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire::emulation {
class GpuMemory;
}

namespace hbmwire::emulation::cuda {

class Physical;

/// Reserves addresses of this process without memory: the CPU faults on them, as on a GPU's.
/// Returns 0 if none are left.
std::uint64_t reserve_addresses(std::uint64_t bytes, std::uint64_t alignment);

void release_addresses(std::uint64_t address, std::uint64_t bytes);

/// Maps memory at reserved addresses, so that the CPU may access it: `physical` of an integrated
/// GPU, or memory of this process if that is null.
bool show_to_cpu(std::uint64_t address, std::uint64_t bytes, const GpuMemory* memory,
                 const Physical* physical);

}  // namespace hbmwire::emulation::cuda

// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire::emulation {
class GpuMemory;
}

namespace hbmwire::emulation::cuda {

class Physical;

/// Addresses of this process that nothing is behind: the CPU faults on them, as on a GPU's. 0 when
/// there are none left.
std::uint64_t reserve_addresses(std::uint64_t bytes, std::uint64_t alignment);

void release_addresses(std::uint64_t address, std::uint64_t bytes);

/// Puts memory behind reserved addresses that the CPU may touch: `physical` of an integrated GPU,
/// or this process's own where that is null.
bool show_to_cpu(std::uint64_t address, std::uint64_t bytes, const GpuMemory* memory,
                 const Physical* physical);

}  // namespace hbmwire::emulation::cuda

// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"

#include "memory/rocm/machine.hpp"

namespace hbmwire::memory::rocm {

/// Opens the memory of `gpu`, which must be one of the machine's.
Result<std::shared_ptr<MemoryDomain>> open_gpu(std::shared_ptr<const Machine> machine,
                                               const Gpu& gpu);

}  // namespace hbmwire::memory::rocm

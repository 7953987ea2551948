// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "hbmwire/memory.hpp"

// Every memory domain's entrance. A new accelerator adds a line here, one in open.cpp, and a
// folder.
namespace hbmwire::memory {

Result<std::shared_ptr<MemoryDomain>> open_host();
Result<std::shared_ptr<MemoryDomain>> open_gaudi(const MemoryOptions& options);

}  // namespace hbmwire::memory

// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "hbmwire/context.hpp"
#include "hbmwire/memory_domain.hpp"

namespace hbmwire::test {

/// Opens a device's memory in its own context.
inline Result<std::shared_ptr<MemoryDomain>> open_memory(MemoryType type,
                                                         const MemoryOptions& options = {}) {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  return context.open(type, options);
}

}  // namespace hbmwire::test

// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "hbmwire/context.hpp"
#include "hbmwire/memory_domain.hpp"

namespace hbmwire::test {

/// A device's memory, by a context of its own.
inline Result<std::shared_ptr<MemoryDomain>> open_memory(MemoryType type,
                                                         const MemoryOptions& options = {}) {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  return context.open(type, options);
}

}  // namespace hbmwire::test

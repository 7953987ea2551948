// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <stdexcept>

#include "hbmwire/context.hpp"
#include "hbmwire/memory_domain.hpp"

namespace hbmwire::test {

/// Host memory. `shared`: in a file that other processes can map.
inline std::shared_ptr<MemoryDomain> host_memory(bool shared) {
  auto domain =
      Context::create()->open(MemoryType::host, {.device = {}, .host = {.shared = shared}});
  if (!domain) throw std::runtime_error(describe(domain.error()));
  return *domain;
}

}  // namespace hbmwire::test

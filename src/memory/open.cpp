// SPDX-License-Identifier: MIT
#include "hbmwire/memory.hpp"

#include "memory/domains.hpp"

namespace hbmwire {

Result<std::shared_ptr<MemoryDomain>> open_memory(MemoryType type, const MemoryOptions& options) {
  switch (type) {
    case MemoryType::host:
      return memory::open_host();
    case MemoryType::gaudi:
      return memory::open_gaudi(options);
  }
  return tl::make_unexpected(
      make_error(Errc::invalid_argument, Stage::configure, "unknown memory type"));
}

}  // namespace hbmwire

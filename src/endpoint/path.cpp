// SPDX-License-Identifier: MIT
#include "hbmwire/path.hpp"

#include <algorithm>

namespace hbmwire {

bool PathPolicy::admits(MemoryType type, Path path) const noexcept {
  const bool by_itself = type == MemoryType::host || path == Path::host;
  if (require && *require != path && !(by_itself && *require == Path::zero_copy)) return false;
  return allow.empty() || std::ranges::find(allow, path) != allow.end();
}

}  // namespace hbmwire

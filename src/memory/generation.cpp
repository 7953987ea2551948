// SPDX-License-Identifier: MIT
#include "memory/generation.hpp"

#include <atomic>

namespace hbmwire::memory {

std::uint64_t next_generation() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace hbmwire::memory

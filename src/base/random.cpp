// SPDX-License-Identifier: MIT
#include "base/random.hpp"

#include <sys/random.h>

#include <random>

namespace hbmwire {

std::uint64_t random_number() noexcept {
  std::uint64_t value = 0;
  while (value == 0) {
    if (::getrandom(&value, sizeof value, 0) == sizeof value) continue;
    // The call fails only on kernels without getrandom(2); the standard library's source serves
    // there.
    std::random_device source;
    value = std::uint64_t{source()} << 32U | source();
  }
  return value;
}

}  // namespace hbmwire

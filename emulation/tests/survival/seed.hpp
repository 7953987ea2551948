// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace hbmwire::test {

using Random = std::mt19937_64;

/// A random number from 0 to `limit` - 1.
inline std::uint64_t below(Random& random, std::uint64_t limit) { return random() % limit; }

/// HBMWIRE_TEST_SEED, or a random seed. It is printed, so that a failure can be repeated.
inline std::uint64_t seed_of_run() {
  const char* given = std::getenv("HBMWIRE_TEST_SEED");
  const std::uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}();
  std::printf("HBMWIRE_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

}  // namespace hbmwire::test

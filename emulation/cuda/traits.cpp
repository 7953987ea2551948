// SPDX-License-Identifier: MIT
#include "emulation/cuda/traits.hpp"

#include <array>
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "emulation/cuda/testing_hooks.hpp"

namespace hbmwire::emulation::cuda {
namespace {

// In the order of Trait.
constexpr std::array<std::string_view, 4> kNames{"integrated", "closed_modules", "no_host_flush",
                                                 "old_driver"};

unsigned bit_of(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames.at(i) == name) return 1U << i;
  }
  return 0;
}

unsigned from_environment() {
  const char* const text = std::getenv("HBMWIRE_EMULATION_CUDA");
  unsigned bits = 0;
  for (std::string_view rest = text == nullptr ? "" : text; !rest.empty();) {
    const auto comma = rest.find(',');
    bits |= bit_of(rest.substr(0, comma));
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  return bits;
}

std::atomic<unsigned>& traits() {
  static std::atomic<unsigned> bits{from_environment()};
  return bits;
}

}  // namespace

bool has_trait(Trait trait) { return (traits().load() & 1U << static_cast<unsigned>(trait)) != 0; }

}  // namespace hbmwire::emulation::cuda

int hbmwire_cuda_set_trait(const char* name, int on) {
  using namespace hbmwire::emulation::cuda;
  const unsigned bit = bit_of(name);
  if (bit == 0) return -1;
  if (on != 0) {
    traits().fetch_or(bit);
  } else {
    traits().fetch_and(~bit);
  }
  return 0;
}

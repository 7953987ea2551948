// SPDX-License-Identifier: MIT
#include "emulation/common/world.hpp"

#include <cstdlib>

namespace hbmwire::emulation {

std::optional<World> World::from_environment() {
  const char* fabric = std::getenv(kFabricVariable);
  const char* node = std::getenv(kNodeVariable);
  if (fabric == nullptr || node == nullptr || *fabric != '/' || *node != '/') return std::nullopt;
  return World{fabric, node};
}

}  // namespace hbmwire::emulation

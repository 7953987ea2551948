// SPDX-License-Identifier: MIT
#include "emulation/gaudi/synapse/synapse_refusal.hpp"

#include "emulation/gaudi/synapse/runtime.hpp"

namespace hbmwire::emulation::gaudi {

std::intptr_t refuse(NotModelled& function, std::intptr_t /*first*/) noexcept {
  return entry_point(function.name, [&](Runtime&) {
    say_not_modelled("libSynapse.so", function, "synUnsupported");
    return synUnsupported;
  });
}

}  // namespace hbmwire::emulation::gaudi

// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/common/not_modelled.hpp"

namespace hbmwire::emulation::gaudi {

/// Returns synUnsupported, or the error of the checks that every function of SynapseAI makes first.
std::intptr_t refuse(NotModelled& function, std::intptr_t first) noexcept;

}  // namespace hbmwire::emulation::gaudi

using hbmwire::emulation::gaudi::refuse;

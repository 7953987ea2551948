// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/common/not_modelled.hpp"

namespace hbmwire::emulation::gaudi {

/// synUnsupported, or before it what any function of SynapseAI checks first.
std::intptr_t refuse(NotModelled& function, std::intptr_t first) noexcept;

}  // namespace hbmwire::emulation::gaudi

using hbmwire::emulation::gaudi::refuse;

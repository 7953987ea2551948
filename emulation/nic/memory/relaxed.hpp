// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "emulation/nic/memory/mover.hpp"

namespace hbmwire::emulation::nic {

/// As move_bytes(), block by block in an order that `seed` decides, with a pause behind the first:
/// often that is the last one. It returns when all are there.
int scatter_bytes(const SegmentList& to, const SegmentList& from, std::uint64_t seed);

}  // namespace hbmwire::emulation::nic

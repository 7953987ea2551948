// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "emulation/nic/memory/mover.hpp"

namespace hbmwire::emulation::nic {

/// As move_bytes(), but copies block by block in a random order that `seed` determines, with a
/// pause after the first block. That is often the last block of the message. Returns when all bytes
/// are in place.
int move_bytes_in_any_order(const SegmentList& to, const SegmentList& from, std::uint64_t seed);

}  // namespace hbmwire::emulation::nic

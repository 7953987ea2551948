// SPDX-License-Identifier: MIT
#pragma once

#include "memory.hpp"

namespace hbmwire::python {

/// The index of the device that has the memory, among the devices of its type, from 0 on.
[[nodiscard]] int device_index(const RegionHold& hold);

}  // namespace hbmwire::python

// SPDX-License-Identifier: MIT
#pragma once

#include "memory.hpp"

namespace hbmwire::python {

/// Which device of its type has the memory, counted from 0.
[[nodiscard]] int device_index(const RegionHold& hold);

}  // namespace hbmwire::python

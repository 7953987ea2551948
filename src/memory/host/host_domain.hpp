// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "hbmwire/memory.hpp"

namespace hbmwire::memory::host {

std::shared_ptr<MemoryDomain> make_domain();

}  // namespace hbmwire::memory::host

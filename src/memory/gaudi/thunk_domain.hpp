// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>

#include "hbmwire/memory.hpp"

namespace hbmwire::memory::gaudi {

/// Opens a card through hl-thunk and owns it. `card`: see MemoryOptions::device.
Result<std::shared_ptr<MemoryDomain>> open_with_thunk(const std::string& card);

/// Opens a card through SynapseAI, or borrows the one that SynapseAI already owns in this process.
Result<std::shared_ptr<MemoryDomain>> open_with_synapse(const std::string& card);

}  // namespace hbmwire::memory::gaudi

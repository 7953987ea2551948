// SPDX-License-Identifier: MIT
#include <cstdlib>
#include <string_view>

#include "memory/domains.hpp"
#include "memory/gaudi/thunk_domain.hpp"

namespace hbmwire::memory {

Result<std::shared_ptr<MemoryDomain>> open_gaudi(const MemoryOptions& options) {
  using Owner = MemoryOptions::Owner;
  if (options.owner == Owner::hl_thunk) return gaudi::open_with_thunk(options.device);
  auto by_synapse = gaudi::open_with_synapse(options.device);
  if (by_synapse || options.owner == Owner::synapse) return by_synapse;
  // Only where SynapseAI is not installed does hl-thunk take its place; a card that SynapseAI finds
  // busy, missing or broken is just that, and a second look by another library would only hide the
  // reason.
  if (by_synapse.error().code != Errc::not_found || by_synapse.error().hint != Hint::no_synapse)
    return by_synapse;
  return gaudi::open_with_thunk(options.device);
}

}  // namespace hbmwire::memory

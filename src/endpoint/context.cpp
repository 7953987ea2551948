// SPDX-License-Identifier: MIT
#include "hbmwire/context.hpp"

#include <utility>

#include "base/log.hpp"
#include "endpoint/context_state.hpp"
#include "topology/near.hpp"
#include "verbs/inventory.hpp"

namespace hbmwire {

Result<Context> Context::create(const ContextOptions& options) {
  HBMWIRE_TRY_ASSIGN(const Settings settings, settings_from_environment());
  use_log_level(settings.log_level);
  return Context(std::make_shared<detail::ContextState>(options, settings));
}

const std::vector<MemoryProbe>& Context::memory() const noexcept { return state_->memory.probes(); }

const Settings& Context::settings() const noexcept { return state_->settings; }

Result<std::vector<NicDevice>> Context::nics() const {
  HBMWIRE_TRY_ASSIGN(auto nics, verbs::list_nics());
  for (NicDevice& nic : nics) nic.numa_node = state_->pci().numa_node(nic.pci_address);
  return nics;
}

std::vector<NearNic> Context::nics_near(std::string_view pci_address,
                                        const std::vector<NicDevice>& nics) const {
  return topology::nics_near(pci_address, nics, state_->pci());
}

int Context::numa_node(std::string_view pci_address) const {
  return state_->pci().numa_node(pci_address);
}

Result<std::shared_ptr<MemoryDomain>> Context::open(MemoryType type,
                                                    const MemoryOptions& options) const {
  return state_->memory.open(type, options);
}

Result<AddressInfo> Context::find(std::uint64_t address, std::uint64_t length_bytes,
                                  std::string_view device) const {
  return state_->memory.find(address, length_bytes, device);
}

Result<Allocation> Context::borrow(std::uint64_t address, std::uint64_t length_bytes,
                                   std::string_view device) const {
  return state_->memory.borrow(address, length_bytes, device);
}

Result<Allocation> Context::import_dmabuf(const DmabufMemory& memory) const {
  return state_->memory.import_dmabuf(memory);
}

Result<Allocation> Context::adopt(const GaudiMemory& memory) const {
  return state_->memory.adopt(memory);
}

}  // namespace hbmwire

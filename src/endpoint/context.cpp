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
  if (const Path* const twice = options.paths.require ? &*options.paths.require : nullptr;
      twice != nullptr && !options.paths.admits(MemoryType::gaudi, *twice)) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure,
                                          "the path that is required is not among those allowed",
                                          to_string(*twice)));
  }
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

Result<std::vector<Nic>> Context::open_nics() const { return state_->open_nics(); }

Result<Allocation> Context::allocate(MemoryType type, std::uint64_t size_bytes,
                                     const MemoryOptions& options) const {
  HBMWIRE_TRY_ASSIGN(const auto domain, open(type, options));
  return domain->allocate(size_bytes);
}

Result<Region> Context::register_memory(std::uint64_t address, std::uint64_t length_bytes,
                                        Access access) const {
  HBMWIRE_TRY_ASSIGN(const Allocation memory, borrow(address, length_bytes));
  return register_memory(memory, access);
}

Result<Region> Context::register_memory(const void* address, std::uint64_t length_bytes,
                                        Access access) const {
  return register_memory(reinterpret_cast<std::uint64_t>(address), length_bytes, access);
}

Result<Region> Context::register_memory(const Allocation& memory, Access access) const {
  HBMWIRE_TRY_ASSIGN(const std::vector<Nic> nics, open_nics());
  HBMWIRE_TRY_ASSIGN(Region region, Nic::register_memory(nics, memory, access));
  HBMWIRE_TRY(state_->check_path(region));
  return region;
}

Result<Region> Context::register_dmabuf(const DmabufMemory& memory, Access access) const {
  HBMWIRE_TRY_ASSIGN(const Allocation imported, import_dmabuf(memory));
  return register_memory(imported, access);
}

const PathPolicy& Context::paths() const noexcept { return state_->options.paths; }

namespace detail {

Result<void> ContextState::check_path(const Region& region) {
  const DeviceInfo& device = region.allocation().domain().device();
  if (!options.paths.admits(device.type, region.path())) {
    // Why the better way was not taken is what its reader wants to know.
    for (const PathTried& tried : region.explain()) {
      if (tried.refusal && tried.path == options.paths.require.value_or(Path::zero_copy))
        return tl::make_unexpected(*tried.refusal);
    }
    return tl::make_unexpected(make_error(Errc::permission_denied, Stage::register_memory,
                                          "the path policy excludes this memory's path",
                                          device.name, Hint::path_policy));
  }
  if (device.type == MemoryType::host || region.path() == Path::zero_copy) return {};
  const std::scoped_lock lock(nics_mutex_);
  if (warned_.insert(device.name).second) {
    log_line(LogLevel::warn, device.name + ": registered by the path " +
                                 std::string(to_string(region.path())) + ", not zero_copy");
  }
  return {};
}

}  // namespace detail

}  // namespace hbmwire

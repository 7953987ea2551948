// SPDX-License-Identifier: MIT
#include "hbmwire/context.hpp"

#include <utility>

#include "base/log.hpp"
#include "memory/catalog.hpp"

namespace hbmwire {

namespace detail {

struct ContextState {
  ContextState(const ContextOptions& options, const Settings& settings_of)
      : settings(settings_of), memory(options.memory, settings) {}

  Settings settings;
  memory::Catalog memory;
};

}  // namespace detail

Result<Context> Context::create(const ContextOptions& options) {
  HBMWIRE_TRY_ASSIGN(const Settings settings, settings_from_environment());
  use_log_level(settings.log_level);
  return Context(std::make_shared<detail::ContextState>(options, settings));
}

const std::vector<MemoryProbe>& Context::memory() const noexcept { return state_->memory.probes(); }

const Settings& Context::settings() const noexcept { return state_->settings; }

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

}  // namespace hbmwire

// SPDX-License-Identifier: MIT
#include "hbmwire/nic.hpp"

#include "base/guarded.hpp"
#include "registration/region_state.hpp"
#include "registration/register.hpp"

namespace hbmwire {

Result<Nic> Nic::open(std::string_view device, std::optional<std::uint8_t> gid_index) {
  return guarded(Stage::open, [&]() -> Result<Nic> {
    HBMWIRE_TRY_ASSIGN(auto state, verbs::open_nic(device, gid_index));
    return Nic(std::move(state));
  });
}

const NicInfo& Nic::info() const noexcept { return state_->info; }

Result<Region> Nic::register_memory(const Allocation& allocation, Access access) const {
  return guarded(Stage::register_memory, [&]() -> Result<Region> {
    return register_memory({this, 1}, allocation, access);
  });
}

Result<Region> Nic::register_memory(std::span<const Nic> nics, const Allocation& allocation,
                                    Access access) {
  return guarded(Stage::register_memory, [&]() -> Result<Region> {
    HBMWIRE_TRY(registration::check_nics(nics));  // before the domain is asked, which may fail, too
    HBMWIRE_TRY(registration::check_access(access));
    MemoryDomain& domain = allocation.domain();
    const auto info = domain.find(allocation.address(), allocation.size_bytes());
    if (!info) {
      return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::register_memory,
                                            "the memory is no longer allocated",
                                            domain.device().name));
    }
    HBMWIRE_TRY_ASSIGN(auto region, registration::register_with(nics, allocation, *info, access));
    return handle_of<Region>(std::move(region));
  });
}

}  // namespace hbmwire

// SPDX-License-Identifier: MIT
#include "hbmwire/low_level/native.hpp"

#include "registration/region_state.hpp"
#include "verbs/nic_state.hpp"
#include "verbs/queue_pair.hpp"

namespace hbmwire::native {

ibv_context* context(const Nic& nic) noexcept { return state_of(nic).context.get(); }

ibv_pd* protection_domain(const Nic& nic) noexcept { return state_of(nic).pd.get(); }

Result<std::uint32_t> local_key(const Region& region, const Nic& nic) {
  if (const auto key = state_of(region).local_key(state_of(nic))) return *key;
  return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::post,
                                        "the region is not registered with this NIC",
                                        nic.info().name));
}

Error completion_error(int status, std::string_view subject) noexcept {
  return verbs::completion_error(status, subject);
}

}  // namespace hbmwire::native

// SPDX-License-Identifier: MIT
#include "transport/verbs/late_lane.hpp"

#include <cerrno>

#include "transport/verbs/lane.hpp"
#include "verbs/link_options.hpp"
#include "verbs/nic_state.hpp"

namespace hbmwire::transport {

LateLane::LateLane(const Nic& nic, VerbsCompletionQueue& completions, int places)
    : Lane(completions, /*by_nic=*/false),  // posts by this class, not to a queue pair
      nic_(state_of(nic).shared_from_this()),
      queue_(completions),
      places_(places) {
  queue_.take(places_);
}

Result<std::unique_ptr<LateLane>> LateLane::create(const Nic& nic,
                                                   VerbsCompletionQueue& completions, int places,
                                                   const LinkOptions& link) {
  HBMWIRE_TRY_ASSIGN(const verbs::PortEntries entries, verbs::port_entries(state_of(nic), link));
  std::unique_ptr<LateLane> lane(new LateLane(nic, completions, places));
  lane->local_ = verbs::port_address(*lane->nic_, entries);
  lane->local_.queue_pair = kNoQueuePair;
  return lane;
}

int LateLane::post(const Operation& /*operation*/, std::uint64_t /*id*/) noexcept {
  return ENOTCONN;
}

int LateLane::post(const Message& /*message*/, std::uint64_t /*id*/) noexcept { return ENOTCONN; }

int LateLane::post(std::span<const Request> /*chain*/, bool& begun) noexcept {
  begun = false;
  return ENOTCONN;
}

std::unique_ptr<PreparedChain> LateLane::prepare(std::span<const Request> requests) const {
  return std::make_unique<VerbsChain>(requests);
}

int LateLane::post(PreparedChain& /*chain*/, bool /*fenced*/, bool& begun) noexcept {
  begun = false;
  return ENOTCONN;
}

int LateLane::post_receives(std::span<const Receive> /*receives*/, std::size_t& posted) noexcept {
  posted = 0;
  return ENOTCONN;
}

}  // namespace hbmwire::transport

// SPDX-License-Identifier: MIT
#include "wire/invitation.hpp"

#include <algorithm>
#include <utility>

#include "base/guarded.hpp"
#include "connect/connection_attempt.hpp"
#include "endpoint/endpoint_state.hpp"

namespace hbmwire {

namespace detail {

struct InvitationState {
  std::shared_ptr<WorkerState> worker;
  std::shared_ptr<EndpointState> endpoint;  // until it is handed out
  std::vector<std::byte> bytes;
  bool started = false;
};

namespace {

Error not_over(const Error& why) {
  return make_error(why.code, Stage::connect, "the invited peer has not connected", {},
                    why.code == Errc::timed_out ? Hint::peer_slow : Hint::none);
}

}  // namespace

}  // namespace detail

EndpointInvitation::EndpointInvitation(std::unique_ptr<detail::InvitationState> state) noexcept
    : state_(std::move(state)) {}

EndpointInvitation::EndpointInvitation(EndpointInvitation&&) noexcept = default;

EndpointInvitation& EndpointInvitation::operator=(EndpointInvitation&& other) noexcept {
  EndpointInvitation goes(std::move(*this));
  state_ = std::move(other.state_);
  return *this;
}

EndpointInvitation::~EndpointInvitation() {
  if (!state_ || !state_->endpoint) return;
  if (state_->worker->is_left_as_is()) {
    static_cast<void>(state_.release());
    return;
  }
  const detail::WorkerLock lock(*state_->worker);
  const auto endpoint = std::move(state_->endpoint);
  endpoint->keeps_worker.reset();
  endpoint->control.stop_probing();
  if (state_->started) endpoint->ending.abandon();
}

Result<EndpointInvitation> EndpointInvitation::create(const Worker& worker,
                                                      const EndpointOptions& options) {
  return guarded(Stage::connect, [&]() -> Result<EndpointInvitation> {
    const detail::WorkerLock lock(state_of(worker));
    HBMWIRE_TRY(state_of(worker).check_process(Stage::connect));
    HBMWIRE_TRY_ASSIGN(const EndpointOptions all, detail::complete(worker.context(), options));
    HBMWIRE_TRY(wire::check_key(all.pre_shared_key));
    // Without a NIC the bytes could not name a place to connect to.
    if (state_of(worker).nics.empty()) {
      HBMWIRE_TRY(worker.context().open_nics());
      return tl::make_unexpected(make_error(Errc::not_found, Stage::connect,
                                            "the worker was made when there was no NIC", {},
                                            Hint::no_rdma_device));
    }
    HBMWIRE_TRY_ASSIGN(const wire::Nonce nonce, wire::make_nonce());
    auto state = std::make_unique<detail::InvitationState>();
    state->worker = shared_state_of(worker);
    HBMWIRE_TRY_ASSIGN(const auto nics, state_of(worker).nics_for_lanes());
    HBMWIRE_TRY_ASSIGN(state->endpoint,
                       detail::EndpointState::create(shared_state_of(worker), all, nics));
    state->endpoint->peer = "invited peer";
    state->endpoint->movers.ring.exclude();
    state->bytes =
        wire::encode_invitation(state->endpoint->wiring.offer(), nonce, all.pre_shared_key);
    return EndpointInvitation(std::move(state));
  });
}

std::span<const std::byte> EndpointInvitation::bytes() const noexcept { return state_->bytes; }

Result<void> EndpointInvitation::start(std::span<const std::byte> theirs) {
  return guarded(Stage::connect, [&]() -> Result<void> {
    const detail::WorkerLock lock(*state_->worker);
    HBMWIRE_TRY(state_->worker->check_process(Stage::connect));
    const auto refuse = [](const char* why) {
      return tl::make_unexpected(
          make_error(Errc::invalid_argument, Stage::connect, why, {}, Hint::invitation));
    };
    if (state_->started) return refuse("an invitation leads to one peer");
    if (std::ranges::equal(theirs, state_->bytes)) return refuse("these are this end's own bytes");
    detail::EndpointState& endpoint = *state_->endpoint;
    const auto& key = endpoint.options.pre_shared_key;
    HBMWIRE_TRY_ASSIGN(const wire::EndpointOffer offer, wire::decode_invitation(theirs, key));
    endpoint.control.probe(wire::make_hails(state_->bytes, theirs, key));
    state_->started = true;
    return endpoint.wiring.connect(offer);
  });
}

Result<std::optional<Endpoint>> EndpointInvitation::poll() {
  return guarded(Stage::connect, [&]() -> Result<std::optional<Endpoint>> {
    const detail::WorkerLock lock(*state_->worker);
    HBMWIRE_TRY(state_->worker->check_process(Stage::connect));
    if (!state_->started || !state_->endpoint) {
      return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::connect,
                                            "nothing was started, or it was taken already", {},
                                            Hint::invitation));
    }
    state_->worker->progress();
    detail::EndpointState& endpoint = *state_->endpoint;
    if (endpoint.control.probes()) {
      if (endpoint.phase == EndpointPhase::ready) return std::nullopt;
      return tl::make_unexpected(endpoint.ending.error() ? *endpoint.ending.error()
                                                         : endpoint.not_ready());
    }
    return handle_of<Endpoint>(std::exchange(state_->endpoint, nullptr));
  });
}

Result<Endpoint> EndpointInvitation::connect(std::span<const std::byte> theirs, const Wait& wait) {
  return guarded(Stage::connect, [&]() -> Result<Endpoint> {
    HBMWIRE_TRY(start(theirs));
    std::optional<Result<std::optional<Endpoint>>> last;
    const detail::WorkerLock lock(*state_->worker);
    const auto driven = state_->worker->drive(wait, [&] {
      // The condition is asked again after it was true, but poll() gives its result only once.
      if (!last || (*last && !**last)) last.emplace(poll());
      return !*last || **last;
    });
    if (!driven) return tl::make_unexpected(detail::not_over(driven.error()));
    if (!*last) return tl::make_unexpected(last->error());
    return std::move(***last);
  });
}

}  // namespace hbmwire

// SPDX-License-Identifier: MIT
#include "connect/connection_attempt.hpp"

#include <cerrno>
#include <utility>
#include <vector>

namespace hbmwire::detail {

namespace {

using wire::Refusal;

/// The refusal to send if this end lacks memory or descriptors.
Refusal of_shortage(const Error& error) noexcept {
  const bool descriptors = error.number == EMFILE || error.number == ENFILE;
  return descriptors ? Refusal::no_descriptors : Refusal::no_room;
}

/// The refusal to send if this end cannot make an endpoint.
Refusal refusal_to_make(const Error& error) noexcept {
  if (error.hint == Hint::path_policy) return Refusal::path_policy;
  return error.code == Errc::permission_denied ? Refusal::not_reachable : of_shortage(error);
}

/// The refusal to send if this end has failed itself.
Refusal refusal_of(const Error& error) noexcept {
  if (is_shortage(error)) return of_shortage(error);
  return error.stage == Stage::connect ? Refusal::not_reachable : Refusal::no_room;
}

}  // namespace

ConnectionAttempt::ConnectionAttempt(const std::shared_ptr<WorkerState>& worker,
                                     wire::Handshake handshake, EndpointOptions options)
    : worker_(worker),
      raw_worker_(worker.get()),
      handshake_(std::move(handshake)),
      options_(std::move(options)) {
  raw_worker_->sockets.begin_handshake();
}

ConnectionAttempt::~ConnectionAttempt() {
  raw_worker_->sockets.end_handshake();
  if (!endpoint_) return;
  endpoint_->wiring.set_handshake(nullptr);
  endpoint_->keeps_worker.reset();
  if (connected_) endpoint_->ending.abandon();
}

bool ConnectionAttempt::make_endpoint(const Result<std::vector<WorkerNic*>>& nics) {
  const auto make = [&]() -> Result<std::shared_ptr<EndpointState>> {
    if (!nics) return tl::make_unexpected(nics.error());
    const auto worker = worker_.lock();
    if (!worker) {
      return tl::make_unexpected(
          make_error(Errc::cancelled, Stage::connect, "the worker has ended", peer()));
    }
    return EndpointState::create(worker, options_, *nics, handshake_.is_late());
  };
  auto endpoint = make();
  if (!endpoint) {
    handshake_.refuse(refusal_to_make(endpoint.error()), endpoint.error());
    return false;
  }
  endpoint_ = std::move(*endpoint);
  endpoint_->peer = peer();
  endpoint_->dialed = !accepting_;
  return true;
}

void ConnectionAttempt::on_greeting() {
  if (make_endpoint(raw_worker_->nics_for_lanes())) handshake_.offer(endpoint_->wiring.offer());
}

void ConnectionAttempt::on_offer() {
  if (shortage) {
    handshake_.refuse(of_shortage(*shortage), *shortage);
    return;
  }
  const wire::EndpointOffer& theirs = handshake_.theirs();
  if (accepting_ && admits_ != nullptr && *admits_ && !(*admits_)(theirs.hello)) {
    handshake_.refuse(Refusal::no_room, make_error(Errc::busy, Stage::connect,
                                                   "the peer is not admitted now", peer()));
    return;
  }
  if (theirs.over_tcp() && !(endpoint_ && endpoint_->paths.by_tcp())) {
    const auto instead =
        raw_worker_->nic_for_tcp().map([](WorkerNic* nic) { return std::vector{nic}; });
    if (!make_endpoint(instead)) return;
  } else if (!endpoint_) {
    // One place for the data lane, and one for each rail.
    const auto places = std::span(theirs.nics).first(1 + theirs.rails.size());
    if (!make_endpoint(raw_worker_->nics_for_lanes(places))) return;
  }
  const wire::EndpointOffer own = endpoint_->wiring.offer();
  if (const auto connected = endpoint_->wiring.connect(handshake_.theirs()); !connected) {
    const bool other_link = handshake_.theirs().data.ethernet != own.data.ethernet;
    handshake_.refuse(other_link ? Refusal::other_link : refusal_of(connected.error()),
                      connected.error());
    return;
  }
  connected_ = true;
  if (accepting_) {
    handshake_.offer(own);
  } else {
    handshake_.confirm();
  }
}

void ConnectionAttempt::look_after() noexcept {
  if (connected_) endpoint_->watch.note_activity(raw_worker_->now);
}

Result<std::shared_ptr<EndpointState>> ConnectionAttempt::take() {
  if (error_) return tl::make_unexpected(*error_);
  connected_ = false;
  endpoint_->wiring.set_handshake(nullptr);
  endpoint_->watch.note_activity(WorkerState::Clock::now());
  return std::move(endpoint_);
}

}  // namespace hbmwire::detail

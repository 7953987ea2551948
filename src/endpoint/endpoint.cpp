// SPDX-License-Identifier: MIT
#include "hbmwire/endpoint.hpp"

#include <utility>

#include "endpoint/endpoint_state.hpp"
#include "wire/handshake.hpp"

namespace hbmwire {

using detail::WorkerLock;

Endpoint::Endpoint(std::shared_ptr<detail::EndpointState> state) noexcept
    : state_(std::move(state)) {}

Endpoint::Endpoint(Endpoint&&) noexcept = default;

Endpoint& Endpoint::operator=(Endpoint&& other) noexcept {
  if (this == &other) return *this;
  const Endpoint goes(std::move(*this));
  state_ = std::move(other.state_);
  return *this;
}

Endpoint::~Endpoint() {
  if (!state_) return;
  // The worker may go with its last endpoint, and takes this one's state with it.
  const auto worker = std::move(state_->keeps_worker);
  const WorkerLock lock(*worker);
  std::exchange(state_, nullptr)->abandon();
}

Result<Endpoint> Endpoint::connect(const Worker& worker, std::string_view peer, const Wait& wait,
                                   const EndpointOptions& options) {
  HBMWIRE_TRY_ASSIGN(wire::Handshake handshake, wire::dial_endpoint(peer, wait));
  HBMWIRE_TRY_ASSIGN(auto state, detail::shake_hands(worker.state(), handshake, wait, options));
  return Endpoint(std::move(state));
}

EndpointPhase Endpoint::phase() const noexcept {
  const WorkerLock lock(*state_->worker);
  return state_->phase;
}

const std::string& Endpoint::peer() const noexcept { return state_->peer; }

const Nic& Endpoint::nic() const noexcept { return state_->worker_nic.nic; }

std::optional<Error> Endpoint::error() const {
  const WorkerLock lock(*state_->worker);
  return state_->error;
}

Result<RemoteRegion> Endpoint::remote(std::string_view name, const Wait& wait) {
  const WorkerLock lock(*state_->worker);
  return state_->look_up(name, wait);
}

Result<RemoteRegion> Endpoint::remote(const RemoteKey& key) const {
  const WorkerLock lock(*state_->worker);
  return state_->resolve(key);
}

Result<Transfer> Endpoint::put(const Slice& from, const RemoteSlice& to,
                               const PutOptions& options) {
  const WorkerLock lock(*state_->worker);
  return state_->put(from, to, options);
}

Result<Transfer> Endpoint::get(const Slice& into, const RemoteSlice& from) {
  const WorkerLock lock(*state_->worker);
  return state_->get(into, from);
}

Result<Transfer> Endpoint::fetch_add(const RemoteSlice& at, std::uint64_t add) {
  const WorkerLock lock(*state_->worker);
  transport::Operation operation;
  operation.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  operation.compare_or_add = add;
  return state_->atomic(at, operation);
}

Result<Transfer> Endpoint::compare_swap(const RemoteSlice& at, std::uint64_t expected,
                                        std::uint64_t desired) {
  const WorkerLock lock(*state_->worker);
  transport::Operation operation;
  operation.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
  operation.compare_or_add = expected;
  operation.swap = desired;
  return state_->atomic(at, operation);
}

Result<Transfer> Endpoint::flush() {
  const WorkerLock lock(*state_->worker);
  return state_->flush();
}

Result<void> Endpoint::fence() {
  const WorkerLock lock(*state_->worker);
  if (state_->phase != EndpointPhase::ready) return tl::make_unexpected(state_->not_ready());
  state_->fence_next = true;
  return {};
}

std::string_view to_string(EndpointPhase phase) noexcept {
  switch (phase) {
    case EndpointPhase::ready:
      return "ready";
    case EndpointPhase::ending:
      return "ending";
    case EndpointPhase::failed:
      return "failed";
    case EndpointPhase::closed:
      return "closed";
  }
  return "?";
}

}  // namespace hbmwire

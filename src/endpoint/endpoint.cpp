// SPDX-License-Identifier: MIT
#include "hbmwire/endpoint.hpp"

#include <utility>

#include "base/guarded.hpp"
#include "connect/connect_to.hpp"
#include "counters/reader.hpp"
#include "endpoint/endpoint_state.hpp"

namespace hbmwire {

using detail::under_lock;
using detail::WorkerLock;

Endpoint::Endpoint(std::shared_ptr<detail::EndpointState> state) noexcept
    : state_(std::move(state)) {
  const WorkerLock lock(*state_->worker);
  state_->messages.be_given();
}

Endpoint::Endpoint(Endpoint&&) noexcept = default;

Endpoint& Endpoint::operator=(Endpoint&& other) noexcept {
  if (this == &other) return *this;
  // Closes this one's old connection at the end of the call.
  const Endpoint goes(std::move(*this));
  state_ = std::move(other.state_);
  return *this;
}

Endpoint::~Endpoint() {
  if (!state_) return;
  // The worker may go with its last endpoint, and would take this endpoint's state with it.
  const auto worker = std::move(state_->keeps_worker);
  const WorkerLock lock(*worker);
  const auto state = std::exchange(state_, nullptr);
  state->ending.abandon();
}

Result<Endpoint> Endpoint::connect(const Worker& worker, std::string_view peer, const Wait& wait,
                                   const EndpointOptions& options) {
  return guarded(Stage::connect, [&]() -> Result<Endpoint> {
    HBMWIRE_TRY(state_of(worker).check_process(Stage::connect));
    HBMWIRE_TRY_ASSIGN(auto state,
                       detail::connect_to(shared_state_of(worker), peer, wait, options));
    return Endpoint(std::move(state));
  });
}

Result<void> Endpoint::reconnect(const Wait& wait) {
  return guarded(Stage::connect, [&]() -> Result<void> {
    const detail::EndpointState& old = *state_;
    {
      const WorkerLock lock(*old.worker);
      HBMWIRE_TRY(old.ending.check_reconnect());
    }
    HBMWIRE_TRY_ASSIGN(auto fresh, detail::connect_to(old.keeps_worker, old.peer, wait, old.options,
                                                      /*again=*/true));
    *this = Endpoint(std::move(fresh));
    return {};
  });
}

Result<void> Endpoint::close(const Wait& wait) {
  return guarded(Stage::complete, [&]() -> Result<void> {
    const WorkerLock lock(*state_->worker);
    return state_->ending.close(wait);
  });
}

Result<Transfer> Endpoint::start_close(const Deadline& until) {
  return guarded(Stage::complete, [&]() -> Result<Transfer> {
    const WorkerLock lock(*state_->worker);
    return state_->ending.start_close(until);
  });
}

Result<void> Endpoint::wait_closed(const Wait& wait) {
  return guarded(Stage::complete, [&]() -> Result<void> {
    const WorkerLock lock(*state_->worker);
    HBMWIRE_TRY(state_->worker->check_process(Stage::complete));
    const auto has_ended = [this] {
      return state_->phase == EndpointPhase::closed || state_->phase == EndpointPhase::failed;
    };
    const auto over = state_->worker->drive(wait, has_ended);
    if (state_->phase == EndpointPhase::closed) return {};
    if (state_->phase != EndpointPhase::failed) return over;
    return tl::make_unexpected(*state_->ending.error());
  });
}

EndpointPhase Endpoint::phase() const noexcept {
  const WorkerLock lock(*state_->worker);
  return state_->phase;
}

std::uint64_t Endpoint::id() const noexcept { return state_->number; }

Result<Counters> Endpoint::counters() const {
  return counters::read_own({.endpoint = state_->number});
}

const std::string& Endpoint::peer() const noexcept { return state_->peer; }

std::span<const std::byte> Endpoint::peer_hello() const noexcept {
  return state_->wiring.peer_hello();
}

const Nic& Endpoint::nic() const noexcept { return state_->worker_nic.nic; }

Placement Endpoint::placement() const noexcept {
  const WorkerLock lock(*state_->worker);
  return state_->paths.placement();
}

std::optional<Error> Endpoint::error() const {
  const WorkerLock lock(*state_->worker);
  return state_->ending.error();
}

Result<RemoteRegion> Endpoint::remote(std::string_view name, const Wait& wait) {
  return guarded(Stage::connect, [&]() -> Result<RemoteRegion> {
    const WorkerLock lock(*state_->worker);
    HBMWIRE_TRY_ASSIGN(const detail::RemoteRegionState region,
                       state_->remote_regions.look_up(name, wait));
    return region.to_region();
  });
}

Result<RemoteRegion> Endpoint::remote(const RemoteKey& key) const {
  return guarded(Stage::connect, [&]() -> Result<RemoteRegion> {
    const WorkerLock lock(*state_->worker);
    HBMWIRE_TRY(state_->worker->check_process(Stage::connect));
    HBMWIRE_TRY_ASSIGN(const detail::RemoteRegionState region, state_->remote_regions.resolve(key));
    return region.to_region();
  });
}

Result<RemoteRegion> Endpoint::remote(std::span<const std::byte> key) const {
  HBMWIRE_TRY_ASSIGN(const RemoteKey unpacked, RemoteKey::unpack(key));
  return remote(unpacked);
}

Result<Transfer> Endpoint::put(const Slice& from, const RemoteSlice& to,
                               const PutOptions& options) {
  return guarded(Stage::post, [&]() -> Result<Transfer> {
    return under_lock(*state_->worker, [&] { return state_->put(from, to, options); });
  });
}

Result<Transfer> Endpoint::get(const Slice& into, const RemoteSlice& from) {
  return guarded(Stage::post, [&]() -> Result<Transfer> {
    return under_lock(*state_->worker, [&] { return state_->get(into, from); });
  });
}

Result<Transfer> Endpoint::put_blocks(const BlockTable& from, const BlockNumbers& from_blocks,
                                      const RemoteBlockTable& to, const BlockNumbers& to_blocks,
                                      const PutOptions& options) {
  return guarded(Stage::post, [&]() -> Result<Transfer> {
    const WorkerLock lock(*state_->worker);
    return state_->movers.blocks.move(
        {&state_of(from), &state_of(to), from_blocks, to_blocks, /*gets=*/false}, options);
  });
}

Result<Transfer> Endpoint::get_blocks(const BlockTable& into, const BlockNumbers& into_blocks,
                                      const RemoteBlockTable& from,
                                      const BlockNumbers& from_blocks) {
  return guarded(Stage::post, [&]() -> Result<Transfer> {
    const WorkerLock lock(*state_->worker);
    return state_->movers.blocks.move(
        {&state_of(into), &state_of(from), into_blocks, from_blocks, /*gets=*/true}, {});
  });
}

Result<Transfer> Endpoint::fetch_add(const RemoteSlice& at, std::uint64_t add) {
  return guarded(Stage::post, [&]() -> Result<Transfer> {
    const WorkerLock lock(*state_->worker);
    transport::Operation operation;
    operation.opcode = transport::Opcode::fetch_add;
    operation.compare_or_add = add;
    return state_->atomic(at, operation);
  });
}

Result<Transfer> Endpoint::compare_swap(const RemoteSlice& at, std::uint64_t expected,
                                        std::uint64_t desired) {
  return guarded(Stage::post, [&]() -> Result<Transfer> {
    const WorkerLock lock(*state_->worker);
    transport::Operation operation;
    operation.opcode = transport::Opcode::compare_swap;
    operation.compare_or_add = expected;
    operation.swap = desired;
    return state_->atomic(at, operation);
  });
}

Result<PreparedTransfer> Endpoint::prepare_put(std::span<const TransferPart> parts,
                                               const PutOptions& options) {
  return guarded(Stage::post, [&]() -> Result<PreparedTransfer> {
    const WorkerLock lock(*state_->worker);
    HBMWIRE_TRY_ASSIGN(auto request, state_->lists.prepare(parts, /*put=*/true, options));
    return handle_of<PreparedTransfer>(std::move(request));
  });
}

Result<PreparedTransfer> Endpoint::prepare_get(std::span<const TransferPart> parts) {
  return guarded(Stage::post, [&]() -> Result<PreparedTransfer> {
    const WorkerLock lock(*state_->worker);
    HBMWIRE_TRY_ASSIGN(auto request, state_->lists.prepare(parts, /*put=*/false, {}));
    return handle_of<PreparedTransfer>(std::move(request));
  });
}

Result<Transfer> Endpoint::send(const Slice& from, const SendOptions& options) {
  return guarded(Stage::post, [&]() -> Result<Transfer> {
    const WorkerLock lock(*state_->worker);
    return state_->messages.send(from, /*tagged=*/false, /*tag=*/0, options);
  });
}

Result<Transfer> Endpoint::send(const Slice& from, std::uint64_t tag, const SendOptions& options) {
  return guarded(Stage::post, [&]() -> Result<Transfer> {
    const WorkerLock lock(*state_->worker);
    return state_->messages.send(from, /*tagged=*/true, tag, options);
  });
}

Result<Transfer> Endpoint::receive(const Slice& into) {
  return guarded(Stage::post, [&]() -> Result<Transfer> {
    const WorkerLock lock(*state_->worker);
    return state_->messages.receive(into, /*tagged=*/false, {});
  });
}

Result<Transfer> Endpoint::receive(const Slice& into, const TagMatch& match) {
  return guarded(Stage::post, [&]() -> Result<Transfer> {
    const WorkerLock lock(*state_->worker);
    return state_->messages.receive(into, /*tagged=*/true, match);
  });
}

Result<Transfer> Endpoint::receive_immediate(const Slice& written) {
  return guarded(Stage::post, [&]() -> Result<Transfer> {
    const WorkerLock lock(*state_->worker);
    return state_->messages.receive_immediate(written);
  });
}

Result<Transfer> Endpoint::flush() {
  return guarded(Stage::post, [&]() -> Result<Transfer> {
    const WorkerLock lock(*state_->worker);
    return state_->flush();
  });
}

Result<void> Endpoint::fence() {
  const WorkerLock lock(*state_->worker);
  if (state_->phase != EndpointPhase::ready || state_->worker->made.is_inherited())
    return tl::make_unexpected(state_->not_ready());
  state_->sends.fence(!state_->pending.empty());
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

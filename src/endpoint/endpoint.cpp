// SPDX-License-Identifier: MIT
#include "hbmwire/endpoint.hpp"

#include <utility>

#include "endpoint/connect_to.hpp"
#include "endpoint/direct_datapath.hpp"

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
  const auto state = std::exchange(state_, nullptr);
  // A child by fork(2) drops its copy, and says nothing in its parent's name.
  if (!worker->made.is_inherited()) state->abandon();
}

Result<Endpoint> Endpoint::connect(const Worker& worker, std::string_view peer, const Wait& wait,
                                   const EndpointOptions& options) {
  HBMWIRE_TRY(worker.state()->check_process(Stage::connect));
  HBMWIRE_TRY_ASSIGN(auto state, detail::connect_to(worker.state(), peer, wait, options));
  state->dialed = true;
  return Endpoint(std::move(state));
}

Result<void> Endpoint::reconnect(const Wait& wait) {
  const detail::EndpointState& old = *state_;
  {
    const WorkerLock lock(*old.worker);
    HBMWIRE_TRY(old.worker->check_process(Stage::connect));
    if (!old.dialed) {
      return tl::make_unexpected(make_error(Errc::not_supported, Stage::connect,
                                            "only the side that connected can do so again",
                                            old.peer, Hint::reconnect));
    }
    if (old.phase == EndpointPhase::ready || old.phase == EndpointPhase::ending) {
      return tl::make_unexpected(make_error(
          Errc::busy, Stage::connect, "the endpoint has not ended yet", old.peer, Hint::reconnect));
    }
  }
  EndpointOptions options = old.options;
  options.eager_bytes = old.eager_asked;  // not what the last peer had
  HBMWIRE_TRY_ASSIGN(Endpoint fresh, connect(Worker(old.keeps_worker), old.peer, wait, options));
  *this = std::move(fresh);
  return {};
}

Result<void> Endpoint::close(const Wait& wait) {
  const WorkerLock lock(*state_->worker);
  return state_->close(wait);
}

EndpointPhase Endpoint::phase() const noexcept {
  const WorkerLock lock(*state_->worker);
  return state_->phase;
}

const std::string& Endpoint::peer() const noexcept { return state_->peer; }

const Nic& Endpoint::nic() const noexcept { return state_->worker_nic.nic; }

Placement Endpoint::placement() const noexcept {
  const WorkerLock lock(*state_->worker);
  return state_->placement;
}

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

namespace {

using detail::EndpointState;

constexpr auto kPut = IBV_WR_RDMA_WRITE;
constexpr auto kGet = IBV_WR_RDMA_READ;

[[gnu::cold, gnu::noinline]] Result<Transfer> refuse(const EndpointState& state) {
  return tl::make_unexpected(
      system_error(Stage::post, "ibv_post_send", state.refusal, state.nic->info.name));
}

template <ibv_wr_opcode kOpcode>
[[gnu::cold, gnu::noinline]] Result<Transfer> send_otherwise(EndpointState& state,
                                                             const Slice& here,
                                                             const RemoteSlice& there);

/// The thread may use the worker.
template <ibv_wr_opcode kOpcode>
[[gnu::always_inline]] inline Result<Transfer> send_now(EndpointState& state, const Slice& here,
                                                        const RemoteSlice& there) {
  const bool is_short = state.is_short(here);
  if (!state.is_usual<kOpcode>(here, there) || (!is_short && !state.is_message(here))) [[unlikely]]
    return send_otherwise<kOpcode>(state, here, there);
  auto* const transfer =
      is_short ? state.send_short<kOpcode>(here, there) : state.send_long<kOpcode>(here, there);
  if (transfer == nullptr) [[unlikely]]
    return refuse(state);
  return Transfer(transfer);
}

/// What is looked at part by part.
template <ibv_wr_opcode kOpcode>
Result<Transfer> send_with_care(EndpointState& state, const Slice& here, const RemoteSlice& there) {
  if constexpr (kOpcode == kPut) return state.put(here, there, {});
  return state.get(here, there);
}

/// What is not direct, or not yet.
template <ibv_wr_opcode kOpcode>
Result<Transfer> send_otherwise(EndpointState& state, const Slice& here, const RemoteSlice& there) {
  if (state.finds_direct(here, there)) return send_now<kOpcode>(state, here, there);
  return send_with_care<kOpcode>(state, here, there);
}

/// Of a worker with a thread of its own; a forked child's is refused.
template <ibv_wr_opcode kOpcode>
[[gnu::noinline]] Result<Transfer> send_with_lock(EndpointState& state, const Slice& here,
                                                  const RemoteSlice& there) {
  const WorkerLock lock(*state.worker);
  if (!state.worker->made.is_inherited()) return send_now<kOpcode>(state, here, there);
  return send_with_care<kOpcode>(state, here, there);
}

template <ibv_wr_opcode kOpcode>
[[gnu::always_inline]] inline Result<Transfer> send_usual(EndpointState& state, const Slice& here,
                                                          const RemoteSlice& there) {
  if (state.unlocked_in != forks()) [[unlikely]]
    return send_with_lock<kOpcode>(state, here, there);
  return send_now<kOpcode>(state, here, there);
}

}  // namespace

Result<Transfer> Endpoint::put(const Slice& from, const RemoteSlice& to) {
  return send_usual<kPut>(*state_, from, to);
}

Result<Transfer> Endpoint::put(const Slice& from, const RemoteSlice& to,
                               const PutOptions& options) {
  if (options.level != CompletionLevel::visible && !options.immediate) return put(from, to);
  const WorkerLock lock(*state_->worker);
  return state_->put(from, to, options);
}

Result<Transfer> Endpoint::get(const Slice& into, const RemoteSlice& from) {
  return send_usual<kGet>(*state_, into, from);
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

Result<PreparedTransfer> Endpoint::prepare_put(std::span<const TransferPart> parts,
                                               const PutOptions& options) {
  const WorkerLock lock(*state_->worker);
  HBMWIRE_TRY_ASSIGN(auto request, state_->prepare(parts, true, options));
  return PreparedTransfer(std::move(request));
}

Result<PreparedTransfer> Endpoint::prepare_get(std::span<const TransferPart> parts) {
  const WorkerLock lock(*state_->worker);
  HBMWIRE_TRY_ASSIGN(auto request, state_->prepare(parts, false, {}));
  return PreparedTransfer(std::move(request));
}

Result<Transfer> Endpoint::send(const Slice& from, const SendOptions& options) {
  const WorkerLock lock(*state_->worker);
  return state_->send(from, false, 0, options);
}

Result<Transfer> Endpoint::send(const Slice& from, std::uint64_t tag, const SendOptions& options) {
  const WorkerLock lock(*state_->worker);
  return state_->send(from, true, tag, options);
}

Result<Transfer> Endpoint::receive(const Slice& into) {
  const WorkerLock lock(*state_->worker);
  return state_->receive(into, false, {});
}

Result<Transfer> Endpoint::receive(const Slice& into, const TagMatch& match) {
  const WorkerLock lock(*state_->worker);
  return state_->receive(into, true, match);
}

Result<Transfer> Endpoint::receive_immediate(const Slice& written) {
  const WorkerLock lock(*state_->worker);
  return state_->receive_immediate(written);
}

Result<Transfer> Endpoint::flush() {
  const WorkerLock lock(*state_->worker);
  return state_->flush();
}

Result<void> Endpoint::fence() {
  const WorkerLock lock(*state_->worker);
  if (state_->phase != EndpointPhase::ready || state_->worker->made.is_inherited())
    return tl::make_unexpected(state_->not_ready());
  state_->fence_next = true;
  state_->ask_before_direct();
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

// SPDX-License-Identifier: MIT
#include "hbmwire/pending.hpp"

#include <optional>
#include <utility>

#include "base/guarded.hpp"
#include "connect/connecting.hpp"
#include "endpoint/endpoint_state.hpp"

namespace hbmwire {

namespace detail {

/// A task and its transfer, in the order in which they must be destroyed.
template <class Work>
struct PendingState {
  explicit PendingState(std::shared_ptr<WorkerState> of) noexcept : worker(std::move(of)) {}

  PendingState(const PendingState&) = delete;
  PendingState& operator=(const PendingState&) = delete;

  ~PendingState() {
    // In a child by fork(2) it is left as it is, like everything else of that worker.
    if (worker->is_left_as_is()) {
      static_cast<void>(task.release());
      transfer.reset();
      return;
    }
    const WorkerLock lock(*worker);
    task.reset();
    transfer.reset();
  }

  /// Errors: it is not over; why it failed; this process is a child by fork(2).
  Result<void> check() const {
    HBMWIRE_TRY(worker->check_process(Stage::connect));
    if (!task->over()) {
      return tl::make_unexpected(
          make_error(Errc::busy, Stage::connect, "it is not over yet: see transfer()"));
    }
    if (task->error()) return tl::make_unexpected(*task->error());
    return {};
  }

  std::shared_ptr<WorkerState> worker;
  std::unique_ptr<Work> task;
  Transfer transfer;
};

struct PendingEndpointState : PendingState<Connecting> {
  using PendingState::PendingState;
};

struct PendingRegionState : PendingState<RegionQuestion> {
  using PendingState::PendingState;
};

namespace {

/// Must be called under the worker's lock.
Result<std::unique_ptr<PendingEndpointState>> start_connecting(
    const std::shared_ptr<WorkerState>& worker, std::string_view peer, const Deadline& until,
    const EndpointOptions& options, bool again) {
  HBMWIRE_TRY(worker->check_process(Stage::connect));
  auto state = std::make_unique<PendingEndpointState>(worker);
  HBMWIRE_TRY_ASSIGN(state->task, Connecting::start(worker, peer, until, options, again));
  HBMWIRE_TRY_ASSIGN(state->transfer, state->task->hand_over());
  return state;
}

}  // namespace

}  // namespace detail

PendingEndpoint::PendingEndpoint(std::unique_ptr<detail::PendingEndpointState> state) noexcept
    : state_(std::move(state)) {}

PendingEndpoint::PendingEndpoint(PendingEndpoint&&) noexcept = default;
PendingEndpoint& PendingEndpoint::operator=(PendingEndpoint&&) noexcept = default;
PendingEndpoint::~PendingEndpoint() = default;

Transfer& PendingEndpoint::transfer() noexcept { return state_->transfer; }

Result<Endpoint> PendingEndpoint::take() {
  return guarded(Stage::connect, [&]() -> Result<Endpoint> {
    const detail::WorkerLock lock(*state_->worker);
    HBMWIRE_TRY(state_->check());
    if (auto endpoint = state_->task->take()) return handle_of<Endpoint>(std::move(endpoint));
    return tl::make_unexpected(
        make_error(Errc::invalid_argument, Stage::connect, "the endpoint was taken already"));
  });
}

PendingRegion::PendingRegion(std::unique_ptr<detail::PendingRegionState> state) noexcept
    : state_(std::move(state)) {}

PendingRegion::PendingRegion(PendingRegion&&) noexcept = default;
PendingRegion& PendingRegion::operator=(PendingRegion&&) noexcept = default;
PendingRegion::~PendingRegion() = default;

Transfer& PendingRegion::transfer() noexcept { return state_->transfer; }

Result<RemoteRegion> PendingRegion::take() {
  return guarded(Stage::connect, [&]() -> Result<RemoteRegion> {
    const detail::WorkerLock lock(*state_->worker);
    HBMWIRE_TRY(state_->check());
    return state_->task->region().to_region();
  });
}

Result<PendingEndpoint> Endpoint::start_connect(const Worker& worker, std::string_view peer,
                                                const Deadline& until,
                                                const EndpointOptions& options) {
  return guarded(Stage::connect, [&]() -> Result<PendingEndpoint> {
    const detail::WorkerLock lock(state_of(worker));
    HBMWIRE_TRY_ASSIGN(auto state, detail::start_connecting(shared_state_of(worker), peer, until,
                                                            options, /*again=*/false));
    return handle_of<PendingEndpoint>(std::move(state));
  });
}

Result<PendingEndpoint> Endpoint::start_reconnect(const Deadline& until) const {
  return guarded(Stage::connect, [&]() -> Result<PendingEndpoint> {
    const detail::WorkerLock lock(*state_->worker);
    HBMWIRE_TRY(state_->ending.check_reconnect());
    HBMWIRE_TRY_ASSIGN(auto state,
                       detail::start_connecting(state_->keeps_worker, state_->peer, until,
                                                state_->options, /*again=*/true));
    return handle_of<PendingEndpoint>(std::move(state));
  });
}

Result<PendingRegion> Endpoint::start_remote(std::string_view name, const Deadline& until) {
  return guarded(Stage::connect, [&]() -> Result<PendingRegion> {
    const detail::WorkerLock lock(*state_->worker);
    auto state = std::make_unique<detail::PendingRegionState>(state_->keeps_worker);
    HBMWIRE_TRY_ASSIGN(state->task, state_->remote_regions.ask(name, until));
    HBMWIRE_TRY_ASSIGN(state->transfer, state->task->hand_over());
    return handle_of<PendingRegion>(std::move(state));
  });
}

}  // namespace hbmwire

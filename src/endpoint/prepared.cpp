// SPDX-License-Identifier: MIT
#include <utility>

#include "base/guarded.hpp"
#include "endpoint/endpoint_state.hpp"

namespace hbmwire {

namespace detail {

namespace {

/// The application has let go of `request`.
void let_go_of(std::unique_ptr<RequestState> request) noexcept {
  WorkerState& worker = *request->worker;
  if (request->endpoint != nullptr) request->endpoint->lists.let_go(std::move(request));
  --worker.held;
  if (worker.orphaned && worker.held == 0) worker.end();
}

}  // namespace

}  // namespace detail

PreparedTransfer::PreparedTransfer(std::unique_ptr<detail::RequestState> state) noexcept
    : state_(std::move(state)) {}

PreparedTransfer::PreparedTransfer(PreparedTransfer&&) noexcept = default;

PreparedTransfer& PreparedTransfer::operator=(PreparedTransfer&& other) noexcept {
  if (this == &other) return *this;
  const PreparedTransfer goes(std::move(*this));
  state_ = std::move(other.state_);
  return *this;
}

PreparedTransfer::~PreparedTransfer() {
  if (!state_) return;
  if (state_->worker->is_left_as_is()) {
    static_cast<void>(state_.release());
    return;
  }
  const detail::WorkerLock lock(*state_->worker);
  detail::let_go_of(std::move(state_));
}

Result<Transfer> PreparedTransfer::post() {
  return guarded(Stage::post, [&]() -> Result<Transfer> {
    const detail::WorkerLock lock(*state_->worker);
    HBMWIRE_TRY(state_->worker->check_process(Stage::post));
    if (state_->endpoint == nullptr) {
      return tl::make_unexpected(
          make_error(Errc::peer_failed, Stage::post, "the endpoint has gone"));
    }
    return state_->endpoint->lists.post(*state_);
  });
}

}  // namespace hbmwire

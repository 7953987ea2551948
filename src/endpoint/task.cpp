// SPDX-License-Identifier: MIT
#include "endpoint/task.hpp"

#include <algorithm>
#include <utility>

#include "endpoint/worker_state.hpp"

namespace hbmwire::detail {

Task::~Task() {
  if (goes_by_clock_) std::erase(worker_.by_clock, this);
  if (!over_) fail(make_error(Errc::cancelled, Stage::complete, "it was given up"));
}

void Task::go_by_clock() {
  worker_.by_clock.push_back(this);
  goes_by_clock_ = true;
}

Result<Transfer> Task::hand_over() {
  go_by_clock();
  TransferState* const transfer = worker_.take_alone();
  if (transfer == nullptr) return tl::make_unexpected(TransferPool::none_left({}));
  transfer->moved = true;
  transfer->mover = nullptr;
  transfer->payload = Ticket{this};
  transfer_ = transfer;
  if (over_) {
    over_ = false;
    error_ ? fail(Error(*error_)) : succeed();
  }
  return handle_of<Transfer>(transfer);
}

void Task::succeed() noexcept {
  if (!ends()) return;
  if (transfer_ != nullptr) worker_.succeed(*std::exchange(transfer_, nullptr));
}

void Task::fail(const Error& why) noexcept {
  if (!ends()) return;
  error_ = why;
  if (transfer_ != nullptr) worker_.fail(*std::exchange(transfer_, nullptr), why, true);
}

/// False: it has ended before.
bool Task::ends() noexcept {
  if (std::exchange(over_, true)) return false;
  set_due(Clock::time_point::max());
  ++worker_.event_count;
  return true;
}

}  // namespace hbmwire::detail

// SPDX-License-Identifier: MIT
#include "endpoint/task.hpp"

#include <utility>

#include "endpoint/transfer_counts_datapath.hpp"

namespace hbmwire::detail {

Task::~Task() {
  worker_.by_clock.remove(*this);
  // A child by fork(2) shares the descriptor by which its parent is told of the end.
  if (worker_.made.is_inherited()) return;
  if (!over_) fail(make_error(Errc::cancelled, Stage::complete, "it was given up"));
}

void Task::go_by_clock() noexcept {
  if (over_) return;
  worker_.by_clock.add(*this);
  // A sleeping thread does not watch this task's descriptors, and would sleep too long: wakes it.
  ++worker_.event_count;
}

Result<Transfer> Task::hand_over() {
  TransferState* const transfer = worker_.take_alone(TransferKind::task);
  if (transfer == nullptr) return tl::make_unexpected(TransferPool::none_left({}));
  transfer->moved = true;
  transfer->mover = nullptr;
  transfer->payload = Ticket{this};
  transfer_ = transfer;
  over_ ? tell() : go_by_clock();
  return handle_of<Transfer>(transfer);
}

void Task::succeed() noexcept {
  if (!over_) end();
}

void Task::fail(const Error& why) noexcept {
  if (over_) return;
  error_ = why;
  end();
}

void Task::end() noexcept {
  over_ = true;
  worker_.by_clock.remove(*this);
  ++worker_.event_count;
  tell();
}

void Task::tell() noexcept {
  if (transfer_ == nullptr) return;
  TransferState& transfer = *std::exchange(transfer_, nullptr);
  error_ ? worker_.fail(transfer, *error_, /*settled=*/true) : worker_.succeed(transfer);
}

}  // namespace hbmwire::detail

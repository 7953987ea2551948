// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>

#include "message/receive_pool.hpp"
#include "transport/lane_datapath.hpp"

namespace hbmwire::detail {

void ReceivePool::on_completed(ReceiveBuffer& buffer,
                               const transport::Completion& completion) noexcept {
  --posted_;
  Receiver* const receiver = only_ != nullptr ? only_ : receivers_.find(completion.queue_pair);
  if (receiver == nullptr) [[unlikely]] {
    ++count_;  // leave() has counted it as lost
    static_cast<void>(post(buffer));
  } else {
    receiver->on_received(buffer, completion);
  }
}

int ReceivePool::post(ReceiveBuffer& buffer) noexcept {
  if (buffer.block == retiring_) [[unlikely]] {
    retiring_->parked.push_back(&buffer);
    return 0;
  }
  waiting_.push_back(&buffer);
  return waiting_.size() >= kBatch ? post_waiting() : 0;
}

/// Posts up to kBatch receives.
int ReceivePool::post_waiting() noexcept {
  std::array<transport::Receive, kBatch> receives;
  const std::size_t count = std::min<std::size_t>(kBatch, waiting_.size());
  // From the end of the list, where resize() removes them.
  for (std::size_t i = 0; i < count; ++i) {
    ReceiveBuffer& buffer = *waiting_[waiting_.size() - 1 - i];
    receives[i] = {transport::to_id(&buffer, transport::Tag::received),
                   {.address = reinterpret_cast<std::uint64_t>(buffer.bytes),
                    .length = options_.receive_bytes,
                    .key = buffer.local_key}};
  }
  std::size_t posted = 0;
  const int result = queue_->post_receives({receives.data(), count}, posted);
  // Receives before a refused one are posted.
  waiting_.resize(waiting_.size() - posted);
  posted_ += static_cast<std::uint32_t>(posted);
  return result;
}

bool ReceivePool::may_take() noexcept {
  if (budget_ == nullptr) return false;
  if (budget_->taken == budget_->most) {
    budget_->is_short = true;
    return false;
  }
  if (promised_ + kBatch < count_) return true;
  wants_ = true;
  return false;
}

bool ReceivePool::take() noexcept {
  if (!may_take()) return false;
  ++budget_->taken;
  ++promised_;
  return true;
}

void ReceivePool::give_back() noexcept {
  --promised_;
  --budget_->taken;
}

}  // namespace hbmwire::detail

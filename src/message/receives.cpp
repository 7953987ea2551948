// SPDX-License-Identifier: MIT
#include "message/receives.hpp"

namespace hbmwire::detail {

Result<void> Receives::make_own(const Context& context, const WorkerNic& nic, transport::Lane& lane,
                                Receiver& receiver, std::uint32_t receive_bytes,
                                std::uint32_t count) {
  HBMWIRE_TRY_ASSIGN(own_,
                     ReceivePool::of_lane(context, nic, lane, receiver, receive_bytes, count));
  pool_ = own_.get();
  return {};
}

Result<void> Receives::join(ReceivePool& pool, std::uint32_t sure) {
  HBMWIRE_TRY(pool.join(sure));
  pool_ = &pool;
  budget_ = pool.budget();
  sure_ = sure;
  return {};
}

void Receives::set_lane(const transport::Lane& lane, Receiver& receiver) {
  pool_->add(lane.local().queue_pair, receiver);
  queue_pair_ = lane.local().queue_pair;
}

std::uint32_t Receives::take_at_first(std::uint32_t wish) noexcept {
  if (!are_shared()) return 0;
  const std::uint32_t taken = pool_->take_at_first(wish);
  extra_ += taken;
  return taken;
}

Result<void> Receives::post_held() {
  if (are_shared()) return {};
  return pool_->post_all();
}

void Receives::leave() noexcept {
  if (are_shared()) pool_->leave(queue_pair_, sure_, extra_, may_miss_one_);
}

}  // namespace hbmwire::detail

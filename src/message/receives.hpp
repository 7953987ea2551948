// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>

#include "message/receive_pool.hpp"

namespace hbmwire::detail {

/// The receives of one lane: from a pool of its own, or its share of a pool for several lanes. In a
/// shared pool some receives are certain, and the lane may take more.
class Receives {
 public:
  Receives() = default;
  Receives(const Receives&) = delete;
  Receives& operator=(const Receives&) = delete;

  /// The lane no longer uses them: its queue pair is destroyed or in ERROR.
  ~Receives() { leave(); }

  /// Errors: as ReceivePool::of_lane().
  Result<void> make_own(const Context& context, const WorkerNic& nic, transport::Lane& lane,
                        Receiver& receiver, std::uint32_t receive_bytes, std::uint32_t count);

  /// Joins a pool; set_lane() must follow. Errors: as ReceivePool::join().
  Result<void> join(ReceivePool& pool, std::uint32_t sure);

  /// Connects the receives to a lane, after join(): `receiver` gets the messages that come by it.
  /// May throw std::bad_alloc.
  void set_lane(const transport::Lane& lane, Receiver& receiver);

  [[nodiscard]] bool are_shared() const noexcept { return pool_ != nullptr && own_ == nullptr; }

  // --- beyond the certain ones

  /// Takes up to `wish` extra receives for a new lane. Not on the data path.
  std::uint32_t take_at_first(std::uint32_t wish) noexcept;

  /// Takes one extra receive. False: there is none now.
  [[nodiscard]] bool take() noexcept {
    if (!are_shared() || !pool_->take()) return false;
    ++extra_;
    return true;
  }

  [[nodiscard]] bool may_take() noexcept { return are_shared() && pool_->may_take(); }

  void give_back() noexcept {
    --extra_;
    pool_->give_back();
  }

  /// Whether lanes want more receives than there are.
  [[nodiscard]] bool are_short() const noexcept { return budget_ != nullptr && budget_->is_short; }

  /// An equal share of the receives beyond the certain ones. Call it only if are_short().
  [[nodiscard]] std::uint32_t fair_share() const noexcept { return budget_->fair_share(); }

  // --- buffers

  /// The message in `buffer` is not needed any more: posts the receive again. Returns `errno` of
  /// ibv_post_recv(3); 0 if the pool is shared, which posts it later.
  int post(ReceiveBuffer& buffer) noexcept {
    const int result = pool_->post(buffer);
    return are_shared() ? 0 : result;
  }

  /// As post(), but post_held() posts the receive, since the lane is in ERROR. Not for shared
  /// receives.
  void hold(ReceiveBuffer& buffer) noexcept { pool_->hold(buffer); }

  /// Errors: Stage::post.
  Result<void> post_held();

  /// Whether no receive of its own is posted. Says nothing of shared ones.
  [[nodiscard]] bool none_posted() const noexcept { return own_ == nullptr || own_->posted() == 0; }

  // --- the end

  /// From here on, until all_are_back(), the lane may keep one receive of which no completion
  /// tells.
  void may_miss_one() noexcept { may_miss_one_ = true; }

  /// The last receive that the lane took has completed.
  void all_are_back() noexcept { may_miss_one_ = false; }

 private:
  void leave() noexcept;

  std::unique_ptr<ReceivePool> own_;
  ReceivePool* pool_ = nullptr;  // `own_`, or the shared one
  const ReceivePool::Budget* budget_ = nullptr;
  std::uint32_t queue_pair_ = 0;  // that of set_lane(); 0: it was not called
  std::uint32_t sure_ = 0;
  std::uint32_t extra_ = 0;
  bool may_miss_one_ = false;
};

}  // namespace hbmwire::detail

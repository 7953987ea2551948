// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>

#include "message/receive_pool.hpp"

namespace hbmwire::detail {

/// The receives of one lane: of a pool of its own, or its part in one that lanes share. It is sure
/// of some of those, and may take more.
class Receives {
 public:
  Receives() = default;
  Receives(const Receives&) = delete;
  Receives& operator=(const Receives&) = delete;

  /// They are not those of its lane any more, whose queue pair is destroyed or in ERROR.
  ~Receives() { leave(); }

  /// Errors: as ReceivePool::of_lane().
  Result<void> make_own(const Context& context, const WorkerNic& nic, transport::Lane& lane,
                        Receiver& receiver, std::uint32_t receive_bytes, std::uint32_t count);

  /// Of no lane yet. Errors: as ReceivePool::join().
  Result<void> join(ReceivePool& pool, std::uint32_t sure);

  /// Behind join(): what comes by `lane` is the receiver's. May throw std::bad_alloc.
  void set_lane(const transport::Lane& lane, Receiver& receiver);

  [[nodiscard]] bool are_shared() const noexcept { return pool_ != nullptr && own_ == nullptr; }

  // --- more than it is sure of

  /// Up to `wish` more, at first. Not on the data path.
  std::uint32_t take_at_first(std::uint32_t wish) noexcept;

  /// One more. False: there is none now.
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

  /// Lanes want more than there are.
  [[nodiscard]] bool are_short() const noexcept { return budget_ != nullptr && budget_->is_short; }

  /// An equal part of those beyond what each lane is sure of.
  [[nodiscard]] std::uint32_t fair_share() const noexcept { return budget_->fair_share(); }

  // --- buffers

  /// Its message is not needed any more. `errno` of ibv_post_recv(3); 0 where the pool is shared,
  /// which posts it later.
  int post(ReceiveBuffer& buffer) noexcept {
    const int result = pool_->post(buffer);
    return are_shared() ? 0 : result;
  }

  /// The same, but it is posted by post_held(): its lane is in ERROR. Not of shared ones.
  void hold(ReceiveBuffer& buffer) noexcept { pool_->hold(buffer); }

  /// Errors: Stage::post.
  Result<void> post_held();

  /// No receive of its own is posted; of shared ones others know.
  [[nodiscard]] bool none_posted() const noexcept { return own_ == nullptr || own_->posted() == 0; }

  // --- the end

  /// From here on the lane may take one with it of which nothing tells, until all_are_back().
  void may_miss_one() noexcept { may_miss_one_ = true; }

  /// The lane has taken its last one, and that has completed.
  void all_are_back() noexcept { may_miss_one_ = false; }

 private:
  void leave() noexcept;

  std::unique_ptr<ReceivePool> own_;
  ReceivePool* pool_ = nullptr;
  const ReceivePool::Budget* budget_ = nullptr;
  std::uint32_t queue_pair_ = 0;
  std::uint32_t sure_ = 0;
  std::uint32_t extra_ = 0;
  bool may_miss_one_ = false;
};

}  // namespace hbmwire::detail

// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "hbmwire/context.hpp"

#include "base/told_cause.hpp"
#include "endpoint/nic_memory.hpp"
#include "message/receiver.hpp"
#include "message/receiver_table.hpp"
#include "message/unexpected_message.hpp"
#include "transport/lane.hpp"

namespace hbmwire::transport {
class SharedReceives;
class VerbsCompletionQueue;
}  // namespace hbmwire::transport

namespace hbmwire::detail {

class ReceivePool;
struct ReceiveBlock;
struct WorkerNic;

/// A buffer for one message of a peer, in registered host memory.
struct ReceiveBuffer {
  ReceivePool* pool = nullptr;  // null in tests
  ReceiveBlock* block = nullptr;
  std::byte* bytes = nullptr;
  std::uint32_t local_key = 0;
  std::uint32_t mover_key = 0;
  bool passes = false;            // not in a receive, but in a ring: its bytes are gone when its
                                  // receiver returns
  UnexpectedMessage record = {};  // of a message that stays here
};

/// Receives that a pool allocates together.
struct ReceiveBlock {
  NicMemory memory;
  std::vector<ReceiveBuffer> buffers;
  std::vector<ReceiveBuffer*> parked;  // receives that are not posted, while the pool retires the
                                       // block
};

/// Receives of one lane, or of all lanes that share a receive queue. Each receive is posted, or
/// holds a message. It is promised to one lane at most (Receives), so that no promise can be
/// broken: there are always as many receives posted as peers may use up.
class ReceivePool {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// This many receives are promised to no lane. Up to one fewer may wait to be posted together,
  /// which costs less than posting each alone; one more may be in the hands of its receiver.
  static constexpr std::uint32_t kBatch = 8;

  /// Receives of a worker's pools that are promised beyond the certain ones of each lane.
  struct Budget {
    std::uint32_t most = 0;
    std::uint32_t taken = 0;
    std::uint32_t lanes = 0;  // lanes that may take some
    bool is_short = false;    // since the last look, a lane wanted more than there is

    [[nodiscard]] std::uint32_t fair_share() const noexcept {
      return lanes == 0 ? 0 : most / lanes;
    }
  };

  struct Options {
    std::uint32_t receive_bytes = 0;
    std::uint32_t block = 0;   // how many receives it grows by
    std::uint32_t depth = 0;   // of a shared queue, as far as the NIC allows it
    Budget* budget = nullptr;  // null: no lane gets more than its certain receives
  };

  /// The memory that one receive takes.
  [[nodiscard]] static std::uint64_t memory_bytes(std::uint32_t receive_bytes) noexcept;

  /// A pool of `count` receives for `lane` alone, all of which are posted at once. Errors:
  /// Stage::allocate, Stage::register_memory, Stage::post.
  static Result<std::unique_ptr<ReceivePool>> of_lane(const Context& context, const WorkerNic& nic,
                                                      transport::Lane& lane, Receiver& receiver,
                                                      std::uint32_t receive_bytes,
                                                      std::uint32_t count);

  /// A pool for all lanes that complete by `completions`. Errors: Stage::open.
  static Result<std::unique_ptr<ReceivePool>> shared(const Context& context, const WorkerNic& nic,
                                                     transport::VerbsCompletionQueue& completions,
                                                     const Options& options);

  ReceivePool(const ReceivePool&) = delete;
  ReceivePool& operator=(const ReceivePool&) = delete;
  ~ReceivePool();

  /// Null if the pool is for one lane.
  [[nodiscard]] transport::SharedReceives* queue() const noexcept { return shared_.get(); }

  /// Whether its queues have room for one more block.
  [[nodiscard]] bool may_grow() const noexcept;

  /// A lane joins, with `sure` certain receives. Errors: as of_lane(); Errc::exhausted.
  Result<void> join(std::uint32_t sure);

  /// The lane that joined has this queue pair. May throw std::bad_alloc.
  void add(std::uint32_t queue_pair, Receiver& receiver) { receivers_.add(queue_pair, receiver); }

  /// A lane leaves: it takes no more receives. It had `extra` beyond the certain ones.
  /// `queue_pair`: 0 if it had none. `lost`: it may keep one receive of which no completion will
  /// tell.
  void leave(std::uint32_t queue_pair, std::uint32_t sure, std::uint32_t extra, bool lost) noexcept;

  /// Takes up to `wish` extra receives for a new lane, without emptying the budget. Not on the data
  /// path.
  [[nodiscard]] std::uint32_t take_at_first(std::uint32_t wish) noexcept;

  /// Whether take() would succeed now. If not, the wish is remembered.
  [[nodiscard]] bool may_take() noexcept;

  /// Takes one extra receive. False: there is none now.
  [[nodiscard]] bool take() noexcept;
  void give_back() noexcept;

  [[nodiscard]] const Budget* budget() const noexcept { return budget_; }

  // --- the data path

  void on_completed(ReceiveBuffer& buffer, const transport::Completion& completion) noexcept;

  /// The message in `buffer` is not needed any more: the receive is posted, together with some
  /// others. On failure returns `errno` of ibv_post_recv(3), and the receive is posted later.
  int post(ReceiveBuffer& buffer) noexcept;

  /// As post(), but the receive is posted by a later post() or post_all().
  void hold(ReceiveBuffer& buffer) noexcept { waiting_.push_back(&buffer); }

  /// Posts all receives that wait for it. Errors: Stage::post.
  Result<void> post_all();

  [[nodiscard]] std::uint32_t posted() const noexcept { return posted_; }

  /// Receives that wait to be posted.
  [[nodiscard]] std::uint32_t waiting() const noexcept {
    return static_cast<std::uint32_t>(waiting_.size());
  }

  [[nodiscard]] std::uint32_t promised() const noexcept { return promised_; }

  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }

  /// Grows if the pool was too small for a wish, and retires blocks that have not been needed for
  /// long.
  void look_after(Time at) noexcept;

 private:
  ReceivePool(const Context& context, const WorkerNic& nic, const Options& options);

  Result<void> grow(std::uint32_t count);
  Result<void> grow_for(std::uint32_t promised);

  /// Receives of all blocks, with those of the block that is being retired.
  [[nodiscard]] std::size_t all() const noexcept;
  int post_waiting() noexcept;
  void retire(Time at) noexcept;

  /// Takes the block that is being retired back into use.
  void revive() noexcept;

  const Context& context_;
  const WorkerNic& nic_;
  Options options_;
  Budget* budget_;
  std::vector<std::unique_ptr<ReceiveBlock>> blocks_;
  std::unique_ptr<transport::SharedReceives> shared_;  // destroyed before the buffers that are
                                                       // posted there
  transport::ReceiveQueue* queue_ = nullptr;
  transport::VerbsCompletionQueue* completions_ = nullptr;  // has a place for each receive
  Receiver* only_ = nullptr;                                // null: `receivers_` has them
  ReceiverTable receivers_;
  std::vector<ReceiveBuffer*> waiting_;  // to be posted
  ReceiveBlock* retiring_ = nullptr;
  Time enough_since_ = Time::max();
  Time grow_at_ = Time::min();  // does not grow before
  std::uint32_t count_ = 0;     // receives that are not being retired; kBatch are never promised
  std::uint32_t promised_ = 0;
  std::uint32_t posted_ = 0;
  bool wants_ = false;  // a wish has failed since the pool was too small
  ToldCause told_;      // why it does not grow
};

}  // namespace hbmwire::detail

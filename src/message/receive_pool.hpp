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

/// A place for one message of a peer's, in registered host memory.
struct ReceiveBuffer {
  ReceivePool* pool = nullptr;  // null: of a test
  ReceiveBlock* block = nullptr;
  std::byte* bytes = nullptr;
  std::uint32_t local_key = 0;
  std::uint32_t mover_key = 0;
  bool passes = false;            // it is no receive, and its bytes go when its receiver returns
  UnexpectedMessage record = {};  // of a message that stays here
};

/// Receives that a pool got at a time.
struct ReceiveBlock {
  NicMemory memory;
  std::vector<ReceiveBuffer> buffers;
  std::vector<ReceiveBuffer*> parked;  // while the pool gives it up: those that are not posted
};

/// Receives, in the memory of this worker, of one lane or of all that share a receive queue. Each
/// one is posted, or holds a message. It is promised to one lane at most (Receives), so that a
/// promise is never broken: there are always as many receives posted as peers may use up.
class ReceivePool {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// So many receives are promised to no lane: one fewer may wait to be posted together, which
  /// costs less than one by one, and one be in the hands of its receiver.
  static constexpr std::uint32_t kBatch = 8;

  /// Receives of the pools of a worker that are promised beyond what each lane is sure of.
  struct Budget {
    std::uint32_t most = 0;
    std::uint32_t taken = 0;
    std::uint32_t lanes = 0;  // that may take some
    bool is_short = false;    // one of them wanted more than there is, since the last look

    [[nodiscard]] std::uint32_t fair_share() const noexcept {
      return lanes == 0 ? 0 : most / lanes;
    }
  };

  struct Options {
    std::uint32_t receive_bytes = 0;
    std::uint32_t block = 0;   // receives that it grows by
    std::uint32_t depth = 0;   // of a shared queue, as far as the NIC has it
    Budget* budget = nullptr;  // null: nothing but what each lane is sure of
  };

  /// Memory that one receive takes.
  [[nodiscard]] static std::uint64_t memory_bytes(std::uint32_t receive_bytes) noexcept;

  /// `count` receives of `lane`, and of no other, all of which are its own: once it is wired up as
  /// far as it takes receives. Errors: Stage::allocate, Stage::register_memory, Stage::post.
  static Result<std::unique_ptr<ReceivePool>> of_lane(const Context& context, const WorkerNic& nic,
                                                      transport::Lane& lane, Receiver& receiver,
                                                      std::uint32_t receive_bytes,
                                                      std::uint32_t count);

  /// Those of all lanes that complete by `completions`. Errors: Stage::open.
  static Result<std::unique_ptr<ReceivePool>> shared(const Context& context, const WorkerNic& nic,
                                                     transport::VerbsCompletionQueue& completions,
                                                     const Options& options);

  ReceivePool(const ReceivePool&) = delete;
  ReceivePool& operator=(const ReceivePool&) = delete;
  ~ReceivePool();

  /// Null: of one lane.
  [[nodiscard]] transport::SharedReceives* queue() const noexcept { return shared_.get(); }

  /// Whether its queues have room for a block more.
  [[nodiscard]] bool may_grow() const noexcept;

  /// A lane joins, sure of so many receives. Errors: as of_lane(); Errc::exhausted.
  Result<void> join(std::uint32_t sure);

  /// It has that queue pair. May throw std::bad_alloc.
  void add(std::uint32_t queue_pair, Receiver& receiver) { receivers_.add(queue_pair, receiver); }

  /// It takes no more of them, of which it had `extra` beyond those that it was sure of.
  /// `queue_pair`: 0, it had none. `lost`: it may have one that nothing tells of.
  void leave(std::uint32_t queue_pair, std::uint32_t sure, std::uint32_t extra, bool lost) noexcept;

  /// Up to `wish` more for a new lane, without emptying the budget. Not on the data path.
  [[nodiscard]] std::uint32_t take_at_first(std::uint32_t wish) noexcept;

  /// Whether there is one more now. If not, the wish is remembered.
  [[nodiscard]] bool may_take() noexcept;

  /// One more. False: there is none now.
  [[nodiscard]] bool take() noexcept;
  void give_back() noexcept;

  [[nodiscard]] const Budget* budget() const noexcept { return budget_; }

  // --- the data path

  void on_completed(ReceiveBuffer& buffer, const transport::Completion& completion) noexcept;

  /// Its message is not needed any more: it is posted, together with some others. `errno` of
  /// ibv_post_recv(3): it is posted later.
  int post(ReceiveBuffer& buffer) noexcept;

  /// The same, but it is posted later.
  void hold(ReceiveBuffer& buffer) noexcept { waiting_.push_back(&buffer); }

  /// Posts all that wait for it. Errors: Stage::post.
  Result<void> post_all();

  [[nodiscard]] std::uint32_t posted() const noexcept { return posted_; }

  /// To be posted.
  [[nodiscard]] std::uint32_t waiting() const noexcept {
    return static_cast<std::uint32_t>(waiting_.size());
  }

  [[nodiscard]] std::uint32_t promised() const noexcept { return promised_; }

  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }

  /// Grows if it was too small for a wish, and gives up what has not been needed for long.
  void look_after(Time at) noexcept;

 private:
  ReceivePool(const Context& context, const WorkerNic& nic, const Options& options);

  Result<void> grow(std::uint32_t count);
  Result<void> grow_for(std::uint32_t promised);
  [[nodiscard]] std::size_t all() const noexcept;
  int post_waiting() noexcept;
  void retire(Time at) noexcept;
  void revive() noexcept;

  const Context& context_;
  const WorkerNic& nic_;
  Options options_;
  Budget* budget_;
  std::vector<std::unique_ptr<ReceiveBlock>> blocks_;
  std::unique_ptr<transport::SharedReceives> shared_;  // goes before what is posted there
  transport::ReceiveQueue* queue_ = nullptr;
  transport::VerbsCompletionQueue* completions_ = nullptr;  // in which each receive has a place
  Receiver* only_ = nullptr;                                // null: the table knows
  ReceiverTable receivers_;
  std::vector<ReceiveBuffer*> waiting_;  // to be posted
  ReceiveBlock* retiring_ = nullptr;
  Time enough_since_ = Time::max();
  Time grow_at_ = Time::min();  // not before
  std::uint32_t count_ = 0;     // so many may be promised, and kBatch
  std::uint32_t promised_ = 0;
  std::uint32_t posted_ = 0;
  bool wants_ = false;  // there is a wish that it is too small for
  ToldCause told_;      // why it does not grow
};

}  // namespace hbmwire::detail

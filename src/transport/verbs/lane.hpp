// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <span>

#include "hbmwire/nic.hpp"

#include "verbs/nic_state.hpp"
#include "verbs/queue_pair.hpp"

namespace hbmwire::transport {

/// Carries the requests of lanes that no NIC has. ibv_post_send(3), ibv_post_recv(3) and
/// ibv_poll_cq(3) find who answers them in the object's ibv_context: such a lane's is the carrier's
/// own, so that whoever posts and polls asks nobody what kind of lane it is.
class LaneCarrier {
 public:
  /// From here on nothing moves by it; what was posted is flushed.
  virtual void break_off(ibv_qp& lane) noexcept = 0;

  /// The same, and nothing completes any more.
  virtual void cut() noexcept = 0;

 protected:
  LaneCarrier() = default;
  LaneCarrier(const LaneCarrier&) = default;
  LaneCarrier& operator=(const LaneCarrier&) = default;
  ~LaneCarrier() = default;
};

/// A completion queue that several lanes share. Each lane takes its places for as long as it lives,
/// so that the queue can't overrun.
class CompletionQueue {
 public:
  /// `channel` outlives it. Errors: Stage::open.
  static Result<std::unique_ptr<CompletionQueue>> create(std::shared_ptr<detail::NicState> nic,
                                                         ibv_comp_channel* channel, int capacity);

  /// Of lanes that no NIC has. `queue` outlives it, and has room for all of them.
  static std::unique_ptr<CompletionQueue> of_carrier(ibv_cq& queue);

  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;
  ~CompletionQueue();

  [[nodiscard]] bool has_room(int places) const noexcept {
    return !lost_ && (!cq_ || capacity_ - taken_ >= places);
  }

  void take(int places) noexcept { taken_ += places; }

  void give_back(int places) noexcept { taken_ -= places; }

  [[nodiscard]] ibv_cq* get() const noexcept { return queue_; }

  /// It brings no more completions: no lane joins it from here on. Not of a carrier's.
  void lose() noexcept { lost_ = static_cast<bool>(cq_); }

  [[nodiscard]] bool lost() const noexcept { return lost_; }

  /// Asks for an event with the next completion, unless it is asked for already.
  Result<void> arm();

  /// An event of this queue was read from the channel.
  void took_event() noexcept;

 private:
  CompletionQueue(std::shared_ptr<detail::NicState> nic, verbs::Cq cq, int capacity) noexcept
      : nic_(std::move(nic)), cq_(std::move(cq)), queue_(cq_.get()), capacity_(capacity) {}

  std::shared_ptr<detail::NicState> nic_;
  verbs::Cq cq_;  // null: a carrier's
  ibv_cq* queue_;
  int capacity_;
  int taken_ = 0;
  unsigned unacknowledged_ = 0;
  bool armed_ = false;
  bool lost_ = false;
};

struct LaneOptions {
  std::uint32_t send_depth = 64;
  std::uint32_t receive_depth = 64;
  std::uint32_t inline_bytes = 0;  ///< asked for; Lane::inline_bytes is what there is
  ibv_pd* pd = nullptr;            ///< instead of the NIC's
};

/// An RC queue pair on a shared completion queue. What is posted and polled goes straight to
/// libibverbs, in the *_datapath files.
struct Lane {
  static Result<std::unique_ptr<Lane>> create(const Nic& nic, CompletionQueue& completions,
                                              const LaneOptions& options);
  Lane() = default;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane();

  /// To ready-to-send. Receives may be posted before, and should be.
  Result<void> connect(const verbs::Wiring& with);

  /// Errors: Stage::post.
  Result<void> post_receive(std::uint64_t id, std::span<std::byte> memory, std::uint32_t local_key);

  /// From here on nothing moves by it; what was posted is flushed.
  Result<void> to_error();

  /// Whether the NIC has it in ERROR. What it can't say is no.
  [[nodiscard]] bool in_error() const noexcept;

  /// Destroys the queue pair: nothing moves by it any more, and nobody promises what completes.
  void cut() noexcept;

  /// Back to where it takes receives: of one that is in ERROR, and drained.
  Result<void> restart();

  std::shared_ptr<detail::NicState> nic;
  CompletionQueue* completions = nullptr;
  int places = 0;           // of `completions`
  verbs::Qp qp;             // null: `carrier` has it
  ibv_qp* queue = nullptr;  // what is posted to
  LaneCarrier* carrier = nullptr;
  std::uint32_t inline_bytes = 0;
  ConnectionAddress local;
  verbs::Wiring wiring;  // the last one
};

}  // namespace hbmwire::transport

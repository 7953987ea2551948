// SPDX-License-Identifier: MIT
#pragma once

#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <memory>

#include "transport/lane.hpp"
#include "verbs/nic_state.hpp"

namespace hbmwire::transport {

[[nodiscard]] inline Completion to_completion(const ibv_wc& from) noexcept {
  Completion completion;
  completion.id = from.wr_id;
  completion.queue_pair = from.qp_num;
  completion.status = static_cast<CompletionStatus>(from.status);
  if (from.status != IBV_WC_SUCCESS) return completion;
  completion.bytes = from.byte_len;
  const bool with_immediate = (from.wc_flags & IBV_WC_WITH_IMM) != 0;
  if (with_immediate) completion.immediate = ntohl(from.imm_data);
  completion.by = from.opcode == IBV_WC_RECV_RDMA_WITH_IMM ? Completion::By::write
                  : with_immediate                         ? Completion::By::message_with_immediate
                                                           : Completion::By::message;
  return completion;
}

/// A completion queue of a NIC. Each lane reserves places during its life, so that the queue cannot
/// overrun.
class VerbsCompletionQueue final : public CompletionQueue {
 public:
  // As many completions as fit in a few cache lines.
  static constexpr int kBatch = 16;

  /// `channel` must outlive it. Errors: Stage::open.
  static Result<std::unique_ptr<VerbsCompletionQueue>> create(std::shared_ptr<detail::NicState> nic,
                                                              ibv_comp_channel* channel,
                                                              int capacity);
  VerbsCompletionQueue(const VerbsCompletionQueue&) = delete;
  VerbsCompletionQueue& operator=(const VerbsCompletionQueue&) = delete;
  ~VerbsCompletionQueue() override;

  [[nodiscard]] bool has_room(int places) const noexcept {
    return !lost_ && capacity_ - taken_ >= places;
  }

  [[nodiscard]] int capacity() const noexcept { return capacity_; }

  void take(int places) noexcept { taken_ += places; }

  void give_back(int places) noexcept { taken_ -= places; }

  [[nodiscard]] ibv_cq* get() const noexcept { return cq_.get(); }

  int poll(std::span<Completion> into) noexcept override;

  /// The implementation of poll() in transport/lane_datapath.hpp.
  template <class Handle>
  int poll_each(const Handle& handle) noexcept {
    std::array<ibv_wc, kBatch> completions;
    const int count = ibv_poll_cq(cq_.get(), kBatch, completions.data());
    for (int i = 0; i < count; ++i) {
      const ibv_wc& completion = completions[static_cast<std::size_t>(i)];
      handle(completion.wr_id, completion.status == IBV_WC_SUCCESS,
             [&] { return to_completion(completion); });
    }
    return count;
  }

  void lose() noexcept override { lost_ = true; }

  [[nodiscard]] bool lost() const noexcept { return lost_; }

  /// Requests an event for the next completion, unless one is requested already.
  Result<void> arm() override;

  /// Reads the events of all queues on `channel`. Does not block.
  static void take_events(ibv_comp_channel* channel) noexcept;

 private:
  VerbsCompletionQueue(std::shared_ptr<detail::NicState> nic, verbs::Cq cq, int capacity) noexcept
      : CompletionQueue(/*by_nic=*/true),
        nic_(std::move(nic)),
        cq_(std::move(cq)),
        capacity_(capacity) {}

  void took_event() noexcept;

  std::shared_ptr<detail::NicState> nic_;
  verbs::Cq cq_;
  int capacity_;
  int taken_ = 0;
  unsigned unacknowledged_ = 0;
  bool armed_ = false;
  bool lost_ = false;
};

}  // namespace hbmwire::transport

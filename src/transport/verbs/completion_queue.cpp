// SPDX-License-Identifier: MIT
#include "transport/verbs/completion_queue.hpp"

#include <algorithm>
#include <utility>

#include "verbs/calls.hpp"

namespace hbmwire::transport {

namespace {

constexpr bool is_same(CompletionStatus ours, ibv_wc_status theirs) noexcept {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}

static_assert(is_same(CompletionStatus::success, IBV_WC_SUCCESS) &&
              is_same(CompletionStatus::length, IBV_WC_LOC_LEN_ERR) &&
              is_same(CompletionStatus::local_protection, IBV_WC_LOC_PROT_ERR) &&
              is_same(CompletionStatus::flushed, IBV_WC_WR_FLUSH_ERR) &&
              is_same(CompletionStatus::local_access, IBV_WC_LOC_ACCESS_ERR) &&
              is_same(CompletionStatus::remote_request, IBV_WC_REM_INV_REQ_ERR) &&
              is_same(CompletionStatus::remote_access, IBV_WC_REM_ACCESS_ERR) &&
              is_same(CompletionStatus::remote_operation, IBV_WC_REM_OP_ERR));

}  // namespace

Result<std::unique_ptr<VerbsCompletionQueue>> VerbsCompletionQueue::create(
    std::shared_ptr<detail::NicState> nic, ibv_comp_channel* channel, int capacity) {
  HBMWIRE_TRY(verbs::check_process(*nic, Stage::open));
  const int entries =
      nic->limits.completions > 0 ? std::min(capacity, nic->limits.completions) : capacity;
  HBMWIRE_TRY_ASSIGN(
      verbs::Cq cq,
      verbs::from_pointer<verbs::Cq>(
          ibv_create_cq(nic->context.get(), entries, nullptr, channel, 0), Stage::open,
          "ibv_create_cq", verbs::with_limit(*nic, "max_cq", nic->limits.completion_queues),
          Hint::queue_pair_limit));
  ibv_cq* const made = cq.get();
  std::unique_ptr<VerbsCompletionQueue> queue(
      new VerbsCompletionQueue(std::move(nic), std::move(cq), entries));
  made->cq_context = queue.get();  // ibv_get_cq_event(3) returns it
  return queue;
}

VerbsCompletionQueue::~VerbsCompletionQueue() {
  // Unacknowledged events would make ibv_destroy_cq wait for ever (ibv_get_cq_event(3)). A child by
  // fork(2) does not call it, and must not take this lock, which a thread of the parent may have
  // held.
  if (unacknowledged_ != 0 && !cq_.is_inherited()) ibv_ack_cq_events(cq_.get(), unacknowledged_);
}

int VerbsCompletionQueue::poll(std::span<Completion> into) noexcept {
  std::array<ibv_wc, kBatch> completions;
  const int most = static_cast<int>(std::min(into.size(), completions.size()));
  const int count = ibv_poll_cq(cq_.get(), most, completions.data());
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    into[at] = to_completion(completions[at]);
  }
  return count;
}

Result<void> VerbsCompletionQueue::arm() {
  if (armed_) return {};
  HBMWIRE_TRY(verbs::from_errno_result(ibv_req_notify_cq(cq_.get(), 0), Stage::complete,
                                       "ibv_req_notify_cq", nic_->info.name));
  armed_ = true;
  return {};
}

void VerbsCompletionQueue::take_events(ibv_comp_channel* channel) noexcept {
  ibv_cq* cq = nullptr;
  void* context = nullptr;  // ibv_cq::cq_context, which create() has set
  while (ibv_get_cq_event(channel, &cq, &context) == 0)
    static_cast<VerbsCompletionQueue*>(context)->took_event();
}

void VerbsCompletionQueue::took_event() noexcept {
  // Acknowledging takes a mutex, so it is done only every 64 events (ibv_get_cq_event(3)).
  constexpr unsigned kAcknowledgeEvery = 64;
  if (++unacknowledged_ == kAcknowledgeEvery) {
    ibv_ack_cq_events(cq_.get(), unacknowledged_);
    unacknowledged_ = 0;
  }
  armed_ = false;
}

}  // namespace hbmwire::transport

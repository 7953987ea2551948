// SPDX-License-Identifier: MIT
#include <sched.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <mutex>

#include "emulation/nic/queue/completion.hpp"
#include "emulation/nic/queue/events.hpp"
#include "emulation/nic/state/null_with.hpp"
#include "emulation/nic/state/scattered.hpp"
#include "emulation/nic/verbs/objects.hpp"
#include "emulation/nic/verbs/shared_steps.hpp"

namespace hbmwire::emulation::nic {
namespace {

/// Copies an entry, which begins as an ibv_wc does.
void fill(const Cqe& entry, ibv_wc& completion) {
  static_assert(offsetof(ibv_wc, status) == offsetof(Cqe, status) &&
                offsetof(ibv_wc, opcode) == offsetof(Cqe, opcode) &&
                offsetof(ibv_wc, vendor_err) == offsetof(Cqe, source_lid) &&
                offsetof(ibv_wc, byte_len) == offsetof(Cqe, byte_len) &&
                offsetof(ibv_wc, imm_data) == offsetof(Cqe, immediate) &&
                offsetof(ibv_wc, qp_num) == offsetof(Cqe, qpn) &&
                offsetof(ibv_wc, src_qp) == offsetof(Cqe, source_qpn) &&
                offsetof(ibv_wc, wc_flags) == offsetof(Cqe, flags) &&
                offsetof(ibv_wc, pkey_index) == offsetof(Cqe, send_index));
  constexpr std::size_t kSame = offsetof(ibv_wc, pkey_index);
  static_assert(kSame == 2 * sizeof(WordPair) + sizeof(std::uint64_t));
  static_assert(sizeof(ibv_wc) == kSame + sizeof(std::uint64_t) &&
                offsetof(ibv_wc, slid) == kSame + 2 && offsetof(ibv_wc, sl) == kSame + 4);
  auto* const to = reinterpret_cast<std::byte*>(&completion);
  std::memcpy(to, &entry, kSame);
  const std::uint64_t none = 0;
  std::memcpy(to + kSame, &none, sizeof(none));
  if (entry.source_lid == 0 && entry.extra == 0) [[likely]]
    return;
  completion.vendor_err = 0;
  completion.slid = entry.source_lid;
  completion.sl = entry.service_level();
}

}  // namespace

Cq* make_cq(ibv_context* context, std::uint32_t cqe, const ibv_comp_channel* channel,
            std::uint32_t comp_vector) {
  ContextState& state = state_of(context);
  int error = planned_failure(state.process, "ibv_create_cq", ObjectKind::cq);
  const bool valid = cqe >= 1 && cqe <= state.device.behaviour.limits.cqe &&
                     comp_vector < static_cast<std::uint32_t>(context->num_comp_vectors);
  if (error == 0 && !valid) error = EINVAL;
  std::uint64_t channel_id = 0;
  if (error == 0 && channel != nullptr) {
    channel_id = state.find_channel(channel->fd);
    if (channel_id == 0) error = EINVAL;
  }
  if (error != 0) return null_with(error);
  auto cq = std::make_unique<Cq>();
  cq->process = &state.process;
  cq->context = &state;
  cq->channel = channel_id;
  cq->index = claim_cq(state.process, {.depth = cqe,
                                       .cookie = reinterpret_cast<std::uint64_t>(&cq->handle),
                                       .channel = channel_id,
                                       .async_channel = state.async_channel,
                                       .room = state.room(&NicLimits::cq)});
  if (cq->index == 0) return nullptr;
  cq->record = &state.process.shared().cqs[cq->index];
  cq->handle.cq.cqe = static_cast<int>(cqe);
  cq->handle.cq.handle = cq->index;
  state.process.count(ObjectKind::cq, 1);
  const std::lock_guard guard(state.mutex);
  state.cqs.add(*cq);
  return cq.release();
}

ibv_cq* create_cq(ibv_context* context, int cqe, ibv_comp_channel* channel, int comp_vector) {
  if (cqe < 0 || comp_vector < 0) return null_with(EINVAL);
  Cq* cq = make_cq(context, static_cast<std::uint32_t>(cqe), channel,
                   static_cast<std::uint32_t>(comp_vector));
  return cq == nullptr ? nullptr : &cq->handle.cq;
}

int resize_cq(ibv_cq* handle, int cqe) {
  const Cq& cq = cq_of(handle);
  int error = planned_failure(*cq.process, "ibv_resize_cq");
  if (error == 0 &&
      (cqe < 1 || static_cast<std::uint64_t>(cqe) > cq.context->device.behaviour.limits.cqe))
    error = EINVAL;
  if (error == 0) error = resize_cq_ring(*cq.process, cq.index, static_cast<std::uint32_t>(cqe));
  if (error == 0) handle->cqe = cqe;
  return error;
}

int destroy_cq(ibv_cq* handle) {
  Cq& cq = cq_of(handle);
  Process& process = *cq.process;
  if (const int error = planned_failure(process, "ibv_destroy_cq"); error != 0) return error;
  if (cq.users.load() != 0) return EBUSY;
  if (!stop_cq(process, cq.index)) return EBUSY;
  CqRecord& record = *cq.record;
  const std::uint32_t completions = withdraw_completions(process, record.completions);
  const std::uint32_t async = withdraw_async(process, record.async);
  wait_until_acknowledged(*handle, [&] {
    return !is_behind(handle->comp_events_completed, completions) &&
           !is_behind(handle->async_events_completed, async);
  });
  {
    const std::lock_guard guard(cq.context->mutex);
    cq.context->cqs.remove(cq);
  }
  if (cq.channel != 0) process.fifos().forget(cq.channel);
  release_cq(process, cq.index);
  process.count(ObjectKind::cq, -1);
  delete &cq;
  return 0;
}

bool stays_empty(Cq& cq) {
  constexpr std::uint32_t kPatience = 256;  // empty polls for each sched_yield()
  const CqRecord& record = *cq.record;
  const auto is_empty = [&] {
    // Needs no lock. If an event was raised for an entry that is still on its way, the CQ is not
    // empty.
    return !has_entry(*cq.process, record) && record.told_tail.load(std::memory_order_acquire) <=
                                                  record.head.load(std::memory_order_relaxed);
  };
  if (!is_empty()) return false;
  // Threads that count at the same time may lose counts, which is harmless.
  const std::uint32_t polls = cq.empty_polls.load(std::memory_order_relaxed) + 1;
  cq.empty_polls.store(polls, std::memory_order_relaxed);
  if (polls % kPatience != 0) return true;
  ::sched_yield();
  // Looks again: the peer may have sent its last message and disconnected meanwhile. A caller that
  // is told that the CQ is empty looks for events next; it would destroy the QP without having seen
  // its completions.
  return is_empty();
}

int poll_cq(ibv_cq* handle, int count, ibv_wc* completions) {
  Cq& cq = cq_of(handle);
  Process& process = *cq.process;
  if (data_path_failure(process, "ibv_poll_cq") != 0) return -1;
  process.progress_parked();
  if (stays_empty(cq)) return 0;
  return take_entries(cq, count, [&](const Cqe& entry, int place) {
    place_scattered(process, entry);
    fill(entry, completions[place]);
  });
}

int req_notify_cq(ibv_cq* handle, int solicited_only) {
  const Cq& cq = cq_of(handle);
  if (const int error = data_path_failure(*cq.process, "ibv_req_notify_cq"); error != 0)
    return error;
  arm(*cq.process, cq.index, solicited_only != 0 ? kArmedForSolicited : kArmedForAny);
  return 0;
}

}  // namespace hbmwire::emulation::nic

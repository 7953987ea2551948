// SPDX-License-Identifier: MIT
#include "emulation/nic/queue/srq.hpp"

#include <cerrno>
#include <mutex>

#include "emulation/nic/queue/events.hpp"
#include "emulation/nic/state/activity.hpp"
#include "emulation/nic/state/null_with.hpp"
#include "emulation/nic/verbs/objects.hpp"
#include "emulation/nic/verbs/shared_steps.hpp"

/// Shared receive queues: of queue pairs that name them (basic), and of XRC domains.
namespace hbmwire::emulation::nic {
namespace {

/// The objects that an SRQ belongs to; the last two only for XRC.
struct Owners {
  Pd* pd = nullptr;
  Cq* cq = nullptr;
  Xrcd* xrcd = nullptr;
};

SrqRecord& record_of(const Srq& srq) { return srq.process->shared().srqs[srq.index]; }

/// man ibv_create_srq: a limit is ignored here; ibv_modify_srq arms it.
SrqRequest request_of(const Owners& owners, const ibv_srq_attr& wanted, std::uint64_t cookie) {
  SrqRequest request;
  request.pd = owners.pd->id;
  request.depth = wanted.max_wr;
  request.max_sge = wanted.max_sge;
  request.room = owners.pd->context->room(&NicLimits::srq);
  request.events = {owners.pd->context->async_channel, cookie, 0, 0, 0};
  if (owners.xrcd == nullptr) return request;
  request.type = IBV_SRQT_XRC;
  request.cq = owners.cq->index;
  request.xrcd = owners.pd->process->shared().xrcds[owners.xrcd->index].id.load();
  return request;
}

void fill_handle(Srq& srq, void* srq_context) {
  const bool is_xrc = srq.xrcd != nullptr;
  srq.handle.type = is_xrc ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
  srq.handle.xrcd = is_xrc ? &srq.xrcd->handle : nullptr;
  srq.handle.cq = is_xrc ? &srq.cq->handle.cq : nullptr;
  srq.handle.number = record_of(srq).number.load();
  // libibverbs fills these in itself, except for ibv_create_srq_ex.
  ibv_srq& handle = srq.handle.srq;
  handle.context = srq.pd->handle.context;
  handle.srq_context = srq_context;
  handle.pd = &srq.pd->handle;
  handle.handle = srq.index;
  pthread_mutex_init(&handle.mutex, nullptr);
  pthread_cond_init(&handle.cond, nullptr);
}

ibv_srq* make_srq(const Owners& owners, const ibv_srq_attr& wanted, void* srq_context) {
  Process& process = *owners.pd->process;
  if (const int error = planned_failure(process, "ibv_create_srq", ObjectKind::srq); error != 0)
    return null_with(error);
  if (owners.pd->context->device.behaviour.limits.srq == 0) return null_with(EOPNOTSUPP);
  if (wanted.max_wr == 0 || wanted.max_wr > kMaxWr || wanted.max_sge > kMaxSge)
    return null_with(EINVAL);
  auto srq = std::make_unique<Srq>();
  srq->process = &process;
  srq->context = owners.pd->context;
  srq->pd = owners.pd;
  srq->cq = owners.cq;
  srq->xrcd = owners.xrcd;
  srq->index =
      claim_srq(process, request_of(owners, wanted, reinterpret_cast<std::uint64_t>(srq.get())));
  if (srq->index == 0) return nullptr;
  fill_handle(*srq, srq_context);
  owners.pd->users.fetch_add(1);
  if (owners.cq != nullptr) owners.cq->users.fetch_add(1);
  if (owners.xrcd != nullptr) owners.xrcd->users.fetch_add(1);
  process.count(ObjectKind::srq, 1);
  const std::lock_guard guard(srq->context->mutex);
  srq->context->srqs.add(*srq);
  return &srq.release()->handle.srq;
}

}  // namespace

ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* attributes) {
  return make_srq({&object_of<Pd>(pd)}, attributes->attr, attributes->srq_context);
}

ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attributes) {
  const auto given = [&](std::uint32_t bit) { return (attributes->comp_mask & bit) != 0; };
  if (attributes->comp_mask >= IBV_SRQ_INIT_ATTR_RESERVED) return null_with(EOPNOTSUPP);
  if (!given(IBV_SRQ_INIT_ATTR_PD) || attributes->pd == nullptr) return null_with(EINVAL);
  Owners owners{&object_of<Pd>(attributes->pd)};
  if (owners.pd->context != &state_of(context)) return null_with(EINVAL);
  const ibv_srq_type type =
      given(IBV_SRQ_INIT_ATTR_TYPE) ? attributes->srq_type : ibv_srq_type{IBV_SRQT_BASIC};
  if (type == IBV_SRQT_TM) return null_with(EOPNOTSUPP);
  if (type != IBV_SRQT_BASIC && type != IBV_SRQT_XRC) return null_with(EINVAL);
  if (type == IBV_SRQT_XRC) {
    if (!given(IBV_SRQ_INIT_ATTR_XRCD) || !given(IBV_SRQ_INIT_ATTR_CQ)) return null_with(EINVAL);
    if (attributes->xrcd == nullptr || attributes->cq == nullptr) return null_with(EINVAL);
    owners.cq = &cq_of(attributes->cq);
    owners.xrcd = &object_of<Xrcd>(attributes->xrcd);
    if (owners.cq->context != owners.pd->context || owners.xrcd->context != owners.pd->context)
      return null_with(EINVAL);
  }
  return make_srq(owners, attributes->attr, attributes->srq_context);
}

int modify_srq(ibv_srq* handle, ibv_srq_attr* attributes, int mask) {
  const Srq& srq = object_of<Srq>(handle);
  if (const int error = planned_failure(*srq.process, "ibv_modify_srq"); error != 0) return error;
  if ((mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) != 0) return EINVAL;
  std::optional<std::uint32_t> depth;
  std::optional<std::uint32_t> limit;
  if ((mask & IBV_SRQ_MAX_WR) != 0) depth = attributes->max_wr;
  if ((mask & IBV_SRQ_LIMIT) != 0) limit = attributes->srq_limit;
  return change_srq(*srq.process, srq.index, depth, limit);
}

int query_srq(ibv_srq* handle, ibv_srq_attr* attributes) {
  const Srq& srq = object_of<Srq>(handle);
  if (const int error = planned_failure(*srq.process, "ibv_query_srq"); error != 0) return error;
  SrqRecord& record = record_of(srq);
  const Hold queue(record.mutex);
  if (!queue.held()) return EBUSY;
  *attributes = {record.receives.depth, record.receives.max_sge, record.limit};
  return 0;
}

int destroy_srq(ibv_srq* handle) {
  Srq& srq = object_of<Srq>(handle);
  Process& process = *srq.process;
  if (const int error = planned_failure(process, "ibv_destroy_srq"); error != 0) return error;
  if (srq.users.load() != 0) return EBUSY;
  const std::uint32_t number = record_of(srq).number.load();
  if (!stop_srq(process, srq.index)) return EBUSY;
  // XRC QPs of other processes may be using the SRQ.
  if (srq.xrcd != nullptr && !wait_for_activity(process)) {
    record_of(srq).number.store(number);
    return EBUSY;
  }
  const std::uint32_t delivered = withdraw_async(process, record_of(srq).events);
  wait_until_acknowledged(*handle, [&] { return !is_behind(handle->events_completed, delivered); });
  {
    const std::lock_guard guard(srq.context->mutex);
    srq.context->srqs.remove(srq);
  }
  release_srq(process, srq.index);
  if (srq.xrcd != nullptr) srq.xrcd->users.fetch_sub(1);
  if (srq.cq != nullptr) srq.cq->users.fetch_sub(1);
  srq.pd->users.fetch_sub(1);
  process.count(ObjectKind::srq, -1);
  delete &srq;
  return 0;
}

int get_srq_num(ibv_srq* handle, std::uint32_t* number) {
  const Srq& srq = object_of<Srq>(handle);
  if (srq.process->abandoned()) return EIO;
  *number = srq.handle.number;
  return 0;
}

int post_srq_recv(ibv_srq* handle, ibv_recv_wr* first, ibv_recv_wr** bad) {
  const Srq& srq = object_of<Srq>(handle);
  return post_receives(*srq.process, "ibv_post_srq_recv", first, bad, [&](const ibv_recv_wr& wr) {
    return post_shared_receive(*srq.process, record_of(srq), wr);
  });
}

}  // namespace hbmwire::emulation::nic

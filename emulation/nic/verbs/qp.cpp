// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "emulation/nic/queue/completion.hpp"
#include "emulation/nic/queue/events.hpp"
#include "emulation/nic/queue/multicast.hpp"
#include "emulation/nic/queue/qp_table.hpp"
#include "emulation/nic/queue/receive.hpp"
#include "emulation/nic/state/null_with.hpp"
#include "emulation/nic/state/scattered.hpp"
#include "emulation/nic/verbs/objects.hpp"
#include "emulation/nic/verbs/shared_steps.hpp"

/// Creates, destroys and posts to queue pairs. Their states are in qp_states.cpp.
namespace hbmwire::emulation::nic {
namespace {

/// The checks of Linux (drivers/infiniband/core/uverbs_cmd.c, create_qp): an XRC_SEND QP does not
/// receive, an XRC_RECV QP is created in a domain instead of a PD, and the SRQ of a domain must not
/// be used here.
int check_queues(const Pd& pd, const ibv_qp_init_attr& attributes) {
  const bool sends_only = attributes.qp_type == IBV_QPT_XRC_SEND;
  if (attributes.qp_type == IBV_QPT_XRC_RECV || attributes.send_cq == nullptr) return EINVAL;
  if (transport_of(attributes.qp_type) == nullptr) return EOPNOTSUPP;
  if (!sends_only && attributes.recv_cq == nullptr) return EINVAL;
  if (attributes.srq == nullptr) return 0;
  const Srq& srq = object_of<Srq>(attributes.srq);
  return sends_only || srq.xrcd != nullptr || srq.context != pd.context ? EINVAL : 0;
}

int check_caps(const ibv_qp_cap& cap) {
  const bool fits = cap.max_send_wr <= kMaxWr && cap.max_recv_wr <= kMaxWr &&
                    cap.max_send_sge <= kMaxSge && cap.max_recv_sge <= kMaxSge &&
                    cap.max_inline_data <= kMaxInlineBytes;
  return fits ? 0 : EINVAL;
}

/// Features that are not modelled (TSO, RSS, source QPNs, flags of Ethernet queues) are EOPNOTSUPP,
/// as are requests that a QP of this type cannot post.
int check_extended(const Behaviour& nic, const ibv_qp_init_attr_ex& attributes) {
  constexpr std::uint32_t kKnown = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
                                   IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  const bool needs_pd = attributes.qp_type != IBV_QPT_XRC_RECV;
  const auto given = [&](std::uint32_t bit) { return (attributes.comp_mask & bit) != 0; };
  if (needs_pd && (!given(IBV_QP_INIT_ATTR_PD) || attributes.pd == nullptr)) return EINVAL;
  if ((attributes.comp_mask & ~kKnown) != 0) return EOPNOTSUPP;
  if (given(IBV_QP_INIT_ATTR_CREATE_FLAGS) && attributes.create_flags != 0) return EOPNOTSUPP;
  const std::uint64_t ops =
      send_ops_of(static_cast<std::uint32_t>(attributes.qp_type), nic.atomics);
  const bool posts =
      !given(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) || (attributes.send_ops_flags & ~ops) == 0;
  return posts ? 0 : EOPNOTSUPP;
}

/// A work request has room for either its elements or inline data. Providers grant as much inline
/// data as fits, even if none was requested, and programs (rdma_xclient) rely on it.
void grant_inline(ibv_qp_cap& cap) {
  const auto room = static_cast<std::uint32_t>(cap.max_send_sge * sizeof(ibv_sge));
  cap.max_inline_data = std::max(cap.max_inline_data, room);
}

QpRequest request_of(const Qp& qp, const ibv_qp_init_attr& attributes) {
  QpRequest request;
  request.type = static_cast<std::uint32_t>(attributes.qp_type);
  request.pd = qp.pd->id;
  request.send_cq = qp.send_cq->index;
  request.recv_cq = qp.recv_cq == nullptr ? 0 : qp.recv_cq->index;
  request.receive_depth = attributes.cap.max_recv_wr;
  request.receive_sge = attributes.cap.max_recv_sge;
  request.srq = qp.srq == nullptr ? 0 : qp.srq->index;
  request.room = qp.context->room(&NicLimits::qp);
  request.events = {qp.context->async_channel, reinterpret_cast<std::uint64_t>(&qp), 0, 0, 0};
  request.scatters = qp.context->device.behaviour.scatter && scatters_by_environment() &&
                     (attributes.qp_type == IBV_QPT_RC || attributes.qp_type == IBV_QPT_UC);
  return request;
}

/// Adds `change` to the numbers of users of the QP's PD, CQs and SRQ.
void change_user_counts(const Qp& qp, int change) {
  const auto by = static_cast<unsigned>(change);
  qp.pd->users.fetch_add(by);
  qp.send_cq->users.fetch_add(by);
  if (qp.recv_cq != nullptr) qp.recv_cq->users.fetch_add(by);
  if (qp.srq != nullptr) qp.srq->users.fetch_add(by);
}

Qp* make_qp(Pd& pd, ibv_qp_init_attr& attributes) {
  Process& process = *pd.process;
  int error = planned_failure(process, "ibv_create_qp", ObjectKind::qp);
  if (error == 0) error = check_queues(pd, attributes);
  const bool sends_only = attributes.qp_type == IBV_QPT_XRC_SEND;
  if (error == 0 && (sends_only || attributes.srq != nullptr))
    attributes.cap.max_recv_wr = attributes.cap.max_recv_sge = 0;
  if (error == 0) error = check_caps(attributes.cap);
  if (error != 0) return null_with(error);
  grant_inline(attributes.cap);
  auto qp = std::make_shared<Qp>();
  qp->process = &process;
  qp->context = pd.context;
  qp->pd = &pd;
  qp->send_cq = &cq_of(attributes.send_cq);
  if (!sends_only) qp->recv_cq = &cq_of(attributes.recv_cq);
  if (attributes.srq != nullptr) qp->srq = &object_of<Srq>(attributes.srq);
  qp->cap = attributes.cap;
  qp->index = claim_qp(process, request_of(*qp, attributes));
  if (qp->index == 0) return nullptr;
  const SendLimits limits{attributes.cap.max_send_wr, attributes.cap.max_send_sge,
                          attributes.cap.max_inline_data, attributes.sq_sig_all != 0,
                          qp->context->device.behaviour.atomics};
  make_sender(qp, transport_of(attributes.qp_type), limits);
  change_user_counts(*qp, 1);
  publish_qp(*qp, pd.handle.context, attributes);
  return hand_out(std::move(qp));
}

}  // namespace

void make_sender(const std::shared_ptr<Qp>& qp, Execute execute, const SendLimits& limits) {
  qp->sender.emplace(*qp->process, record_of(*qp), execute, limits);
  qp->sender->lie_in(qp);
}

void publish_qp(Qp& qp, ibv_context* context, const ibv_qp_init_attr& attributes) {
  ibv_qp& handle = qp.handle.qp;
  handle.context = context;
  handle.qp_context = attributes.qp_context;
  handle.pd = qp.pd == nullptr ? nullptr : &qp.pd->handle;
  handle.send_cq = attributes.send_cq;
  handle.recv_cq = attributes.recv_cq;
  handle.srq = attributes.srq;
  handle.handle = qp.index;
  handle.qp_num = record_of(qp).qpn.load();
  handle.state = IBV_QPS_RESET;
  handle.qp_type = attributes.qp_type;
  pthread_mutex_init(&handle.mutex, nullptr);
  pthread_cond_init(&handle.cond, nullptr);
  qp.process->count(ObjectKind::qp, 1);
  const std::lock_guard guard(qp.context->mutex);
  qp.context->qps.add(qp);
}

void withdraw_qp(Qp& qp) {
  ibv_qp& handle = qp.handle.qp;
  const std::uint32_t delivered = withdraw_async(*qp.process, events_of(qp));
  wait_until_acknowledged(handle, [&] { return !is_behind(handle.events_completed, delivered); });
  const std::lock_guard guard(qp.context->mutex);
  qp.context->qps.remove(qp);
}

void purge_completions(const Qp& qp) {
  const std::uint32_t qpn = qp.handle.qp.qp_num;
  if (qp.send_cq != nullptr) purge(*qp.process, qp.send_cq->index, qpn);
  if (qp.recv_cq != nullptr && qp.recv_cq != qp.send_cq) purge(*qp.process, qp.recv_cq->index, qpn);
  if (record_of(qp).scatters != 0)
    release_scattered_of(qp.process->shared(), {qp.process->slot(), qpn});
}

ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  Qp* qp = make_qp(object_of<Pd>(pd), *attributes);
  return qp == nullptr ? nullptr : &qp->handle.qp;
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attributes) {
  if (const int error = check_extended(state_of(context).device.behaviour, *attributes);
      error != 0) {
    return null_with(error);
  }
  if (attributes->qp_type == IBV_QPT_XRC_RECV) return create_xrc_receiver(context, *attributes);
  const bool extended = (attributes->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  ibv_qp_init_attr plain{attributes->qp_context, attributes->send_cq, attributes->recv_cq,
                         attributes->srq,        attributes->cap,     attributes->qp_type,
                         attributes->sq_sig_all};
  Qp* qp = make_qp(object_of<Pd>(attributes->pd), plain);
  if (qp == nullptr) return nullptr;
  attributes->cap = plain.cap;
  if (extended) {
    set_work_request_functions(qp->handle.extended);
    abi::mark_extended(qp->handle);
  }
  return &qp->handle.qp;
}

int destroy_qp(ibv_qp* handle) {
  Qp& qp = object_of<Qp>(handle);
  Process& process = *qp.process;
  if (const int error = planned_failure(process, "ibv_destroy_qp"); error != 0) return error;
  // As in Linux, a QP that is attached to a multicast group cannot be destroyed.
  if (count_multicast(process, handle->qp_num) != 0U) return EBUSY;
  if (qp.xrc_handle != 0) return destroy_xrc_receiver(qp);
  {
    const std::lock_guard guard(qp.sender->mutex);
    if (!stop_qp(process, qp.index)) return EBUSY;
    qp.sender->close_locked();
  }
  purge_completions(qp);
  withdraw_qp(qp);
  release_qp(process, qp.index);
  change_user_counts(qp, -1);
  process.count(ObjectKind::qp, -1);
  process.write_port_files();
  const auto last = std::move(qp.self);  // a thread that executes its requests may still keep it
  return 0;
}

int post_send(ibv_qp* handle, ibv_send_wr* first, ibv_send_wr** bad) {
  return object_of<Qp>(handle).sender->post(first, bad);
}

int post_recv(ibv_qp* handle, ibv_recv_wr* first, ibv_recv_wr** bad) {
  const Qp& qp = object_of<Qp>(handle);
  return post_receives(*qp.process, "ibv_post_recv", first, bad, [&](const ibv_recv_wr& wr) {
    return post_receive(*qp.process, record_of(qp), wr);
  });
}

}  // namespace hbmwire::emulation::nic

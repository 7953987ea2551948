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
#include "emulation/nic/verbs/objects.hpp"

/// Creating, destroying and posting to queue pairs; states are in qp_states.cpp.
namespace hbmwire::emulation::nic {
namespace {

int check_caps(const ibv_qp_init_attr& attributes) {
  const ibv_qp_cap& cap = attributes.cap;
  if (attributes.send_cq == nullptr || attributes.recv_cq == nullptr) return EINVAL;
  if (attributes.srq != nullptr || transport_of(attributes.qp_type) == nullptr) return EOPNOTSUPP;
  const bool fits = cap.max_send_wr <= kMaxWr && cap.max_recv_wr <= kMaxWr &&
                    cap.max_send_sge <= kMaxSge && cap.max_recv_sge <= kMaxSge &&
                    cap.max_inline_data <= kMaxInlineBytes;
  return fits ? 0 : EINVAL;
}

/// What is not modelled (TSO, RSS, source QPNs, flags of Ethernet queues) is EOPNOTSUPP, as are
/// requests that a QP of the type does not post.
int check_extended(const ibv_qp_init_attr_ex& attributes) {
  constexpr std::uint32_t kKnown =
      IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  const auto given = [&](std::uint32_t bit) { return (attributes.comp_mask & bit) != 0; };
  if (!given(IBV_QP_INIT_ATTR_PD) || attributes.pd == nullptr) return EINVAL;
  if ((attributes.comp_mask & ~kKnown) != 0) return EOPNOTSUPP;
  if (given(IBV_QP_INIT_ATTR_CREATE_FLAGS) && attributes.create_flags != 0) return EOPNOTSUPP;
  const std::uint64_t ops = send_ops_of(static_cast<std::uint32_t>(attributes.qp_type));
  const bool posts =
      !given(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) || (attributes.send_ops_flags & ~ops) == 0;
  return posts ? 0 : EOPNOTSUPP;
}

/// A work request has room for its elements or for inline data. Providers grant what fits there,
/// also to those who ask for none, and programs (rdma_xclient) rely on it.
void grant_inline(ibv_qp_cap& cap) {
  const auto room = static_cast<std::uint32_t>(cap.max_send_sge * sizeof(ibv_sge));
  cap.max_inline_data = std::max(cap.max_inline_data, room);
}

/// libibverbs fills in nothing of a QP's handle.
void fill_handle(Qp& qp, Pd& pd, const ibv_qp_init_attr& attributes, std::uint32_t qpn) {
  ibv_qp& handle = qp.handle.qp;
  handle.context = pd.handle.context;
  handle.qp_context = attributes.qp_context;
  handle.pd = &pd.handle;
  handle.send_cq = attributes.send_cq;
  handle.recv_cq = attributes.recv_cq;
  handle.handle = qp.index;
  handle.qp_num = qpn;
  handle.state = IBV_QPS_RESET;
  handle.qp_type = attributes.qp_type;
  pthread_mutex_init(&handle.mutex, nullptr);
  pthread_cond_init(&handle.cond, nullptr);
}

Qp* make_qp(Pd& pd, ibv_qp_init_attr& attributes) {
  Process& process = *pd.process;
  int error = planned_failure(process, "ibv_create_qp");
  if (error == 0) error = check_caps(attributes);
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  grant_inline(attributes.cap);
  auto qp = std::make_unique<Qp>();
  qp->process = &process;
  qp->context = pd.context;
  qp->pd = &pd;
  qp->send_cq = &object_of<Cq>(attributes.send_cq);
  qp->recv_cq = &object_of<Cq>(attributes.recv_cq);
  qp->cap = attributes.cap;
  QpRequest request;
  request.type = static_cast<std::uint32_t>(attributes.qp_type);
  request.pd = pd.id;
  request.send_cq = qp->send_cq->index;
  request.recv_cq = qp->recv_cq->index;
  request.receive_depth = attributes.cap.max_recv_wr;
  request.receive_sge = attributes.cap.max_recv_sge;
  request.events = {pd.context->async_channel, reinterpret_cast<std::uint64_t>(qp.get()), 0, 0};
  qp->index = claim_qp(process, request);
  if (qp->index == 0) return nullptr;
  QpRecord& record = process.shared().qps[qp->index];
  const SendLimits limits{attributes.cap.max_send_wr, attributes.cap.max_send_sge,
                          attributes.cap.max_inline_data, attributes.sq_sig_all != 0};
  qp->sender = std::make_shared<Sender>(process, record, transport_of(attributes.qp_type), limits);
  fill_handle(*qp, pd, attributes, record.qpn.load());
  pd.users.fetch_add(1);
  qp->send_cq->users.fetch_add(1);
  qp->recv_cq->users.fetch_add(1);
  {
    const std::lock_guard guard(pd.context->mutex);
    pd.context->qps.push_back(qp.get());
  }
  process.count(ObjectKind::qp, 1);
  return qp.release();
}

}  // namespace

ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  Qp* qp = make_qp(object_of<Pd>(pd), *attributes);
  return qp == nullptr ? nullptr : &qp->handle.qp;
}

ibv_qp* create_qp_ex(ibv_context* /*context*/, ibv_qp_init_attr_ex* attributes) {
  if (const int error = check_extended(*attributes); error != 0) {
    errno = error;
    return nullptr;
  }
  const bool extended = (attributes->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  ibv_qp_init_attr plain{attributes->qp_context, attributes->send_cq, attributes->recv_cq,
                         attributes->srq,        attributes->cap,     attributes->qp_type,
                         attributes->sq_sig_all};
  Qp* qp = make_qp(object_of<Pd>(attributes->pd), plain);
  if (qp == nullptr) return nullptr;
  attributes->cap = plain.cap;
  if (extended) {
    qp->handle.comp_mask |= abi::kQueuePairIsExtended;
    set_work_request_functions(qp->handle.extended);
  }
  return &qp->handle.qp;
}

int destroy_qp(ibv_qp* handle) {
  Qp& qp = object_of<Qp>(handle);
  Process& process = *qp.process;
  if (const int error = planned_failure(process, "ibv_destroy_qp"); error != 0) return error;
  // Linux: a QP that is attached to a multicast group can't go.
  if (count_multicast(process, handle->qp_num) != 0) return EBUSY;
  QpRecord& record = process.shared().qps[qp.index];
  {
    const std::lock_guard guard(qp.sender->mutex);
    qp.sender->close_locked();
    stop_qp(process, qp.index);
  }
  purge(process, qp.send_cq->index, handle->qp_num);
  if (qp.recv_cq != qp.send_cq) purge(process, qp.recv_cq->index, handle->qp_num);
  const std::uint32_t delivered = withdraw_async(process, record.events);
  pthread_mutex_lock(&handle->mutex);
  while (handle->events_completed != delivered) pthread_cond_wait(&handle->cond, &handle->mutex);
  pthread_mutex_unlock(&handle->mutex);
  {
    const std::lock_guard guard(qp.context->mutex);
    std::erase(qp.context->qps, &qp);
  }
  release_qp(process, qp.index);
  qp.recv_cq->users.fetch_sub(1);
  qp.send_cq->users.fetch_sub(1);
  qp.pd->users.fetch_sub(1);
  process.count(ObjectKind::qp, -1);
  process.write_port_files();
  delete &qp;
  return 0;
}

int post_send(ibv_qp* handle, ibv_send_wr* first, ibv_send_wr** bad) {
  const Qp& qp = object_of<Qp>(handle);
  if (qp.process->abandoned()) {
    *bad = first;
    return EIO;
  }
  const ibv_send_wr* wrong = nullptr;
  const int error = qp.sender->post(first, &wrong);
  if (error != 0) *bad = const_cast<ibv_send_wr*>(wrong);
  return error;
}

int post_recv(ibv_qp* handle, ibv_recv_wr* first, ibv_recv_wr** bad) {
  const Qp& qp = object_of<Qp>(handle);
  Process& process = *qp.process;
  QpRecord& record = process.shared().qps[qp.index];
  for (ibv_recv_wr* wr = first; wr != nullptr; wr = wr->next) {
    const int error = process.abandoned() ? EIO : post_receive(process, record, *wr);
    if (error != 0) {
      *bad = wr;
      return error;
    }
  }
  return 0;
}

}  // namespace hbmwire::emulation::nic

// SPDX-License-Identifier: MIT
#include "emulation/nic/queue/receive.hpp"

#include <cerrno>
#include <mutex>

#include "emulation/nic/queue/completion.hpp"
#include "emulation/nic/queue/events.hpp"
#include "emulation/nic/queue/srq.hpp"
#include "emulation/nic/state/prefetch.hpp"
#include "emulation/nic/state/receive_ring.hpp"
#include "emulation/nic/transport/counting.hpp"

namespace hbmwire::emulation::nic {
namespace {

Cqe flushed(const QpRecord& qp, std::uint64_t wr_id) {
  Cqe entry{};
  entry.wr_id = wr_id;
  entry.status = IBV_WC_WR_FLUSH_ERR;
  entry.opcode = IBV_WC_RECV;
  entry.qpn = qp.qpn.load(std::memory_order_relaxed);
  return entry;
}

/// With QpRecord::queue held. False: the CQ overran.
bool flush_receives(Process& process, QpRecord& qp) {
  bool fits = true;
  while (!qp.receives.empty()) {
    ReceiveEntry oldest;
    copy_oldest(process, qp.receives, oldest);
    ++qp.receives.head;
    count_receive(process, qp.port, IBV_WC_WR_FLUSH_ERR);
    fits = push(process, qp.recv_cq, flushed(qp, oldest.wr_id), false) && fits;
  }
  return fits;
}

/// With QpRecord::queue held, which posting takes: a receive is either seen here, or whoever posts
/// it sees that a sender waits.
bool posted_or_wait(QpRecord& qp) {
  if (!qp.receives.empty()) return true;
  qp.sender_waits.store(1);
  return false;
}

}  // namespace

ReceiveSource receives_of(SharedState& shared, QpRecord& qp) {
  if (qp.srq == 0) return {qp, 0, qp.recv_cq, {qp.owner.load(), qp.pd}};
  const SrqRecord& srq = shared.srqs[qp.srq];
  return {qp, qp.srq, qp.recv_cq, {srq.owner.load(), srq.pd}};
}

int post_receive(Process& process, QpRecord& qp, const ibv_recv_wr& request) {
  const bool has_queue = qp.srq == 0 && qp.type != IBV_QPT_XRC_SEND && qp.type != IBV_QPT_XRC_RECV;
  if (!has_queue) return EINVAL;
  bool fits = true;
  bool wake = false;
  {
    const std::lock_guard guard(qp.queue);
    const std::uint32_t state = qp.state.load(std::memory_order_relaxed);
    if (state == IBV_QPS_RESET) return EINVAL;
    if (const int error = append_receive(process, qp.receives, request); error != 0) return error;
    if (state == IBV_QPS_ERR) fits = flush_receives(process, qp);
    wake = qp.sender_waits.load(std::memory_order_relaxed) != 0;
  }
  if (!fits) overrun(process, qp.recv_cq);
  if (wake) wake_sender(process, qp);
  return 0;
}

void prefetch_receive(Process& process, const QpRecord& qp) {
  SharedState& shared = process.shared();
  if (qp.next_receive != 0) prefetch_to_read(process.at<std::byte>(qp.next_receive));
  prefetch_to_write(qp.srq != 0 ? &shared.srqs[qp.srq].mutex : &qp.queue);
  prefetch_to_write(&shared.cqs[qp.recv_cq].mutex);
}

bool receive_is_posted(Process& process, const ReceiveSource& source) {
  if (source.srq != 0) return shared_receive_is_posted(process, source.srq);
  const std::lock_guard guard(source.qp.queue);
  return posted_or_wait(source.qp);
}

bool take_receive(Process& process, const ReceiveSource& source, ReceiveEntry& entry) {
  if (source.srq != 0) return take_shared_receive(process, source.srq, entry);
  const std::lock_guard guard(source.qp.queue);
  if (!posted_or_wait(source.qp)) return false;
  prefetch_push(process, source.cq);
  copy_oldest(process, source.qp.receives, entry);
  source.qp.next_receive = offset_behind_oldest(source.qp.receives);
  return true;
}

void complete_receive(Process& process, const ReceiveSource& source, const Cqe& entry,
                      bool solicited) {
  bool fits = true;
  count_receive(process, source.qp.port, static_cast<ibv_wc_status>(entry.status));
  if (source.srq_number != 0) {
    // The SRQ's CQ is there for as long as the SRQ is.
    SrqRecord& srq = process.shared().srqs[source.srq];
    const std::lock_guard guard(srq.mutex);
    if (srq.number.load() != source.srq_number) return;
    fits = push(process, source.cq, entry, solicited);
  } else if (source.srq != 0) {
    fits = push(process, source.cq, entry, solicited);
  } else {
    const std::lock_guard guard(source.qp.queue);
    // An overrun of another queue may have flushed it in between.
    if (source.qp.receives.empty()) return;
    ++source.qp.receives.head;
    fits = push(process, source.cq, entry, solicited);
  }
  if (fits) return;
  overrun(process, source.cq);
  if (source.srq_number != 0)
    enter_error(process, source.qp, source.qp.qpn.load(), IBV_EVENT_QP_FATAL);
}

void note_arrival(Process& process, QpRecord& qp) {
  if (qp.state.load() != IBV_QPS_RTR || qp.established != 0) return;
  const std::lock_guard guard(qp.queue);
  qp.established = 1;
  raise_on_qp(process, qp, IBV_EVENT_COMM_EST);
}

void enter_error(Process& process, QpRecord& qp, std::uint32_t qpn,
                 std::optional<ibv_event_type> event) {
  bool fits = true;
  {
    const std::lock_guard guard(qp.queue);
    const std::uint32_t state = qp.state.load(std::memory_order_relaxed);
    if (qp.qpn.load() != qpn || state == IBV_QPS_RESET || state == IBV_QPS_ERR) return;
    qp.state.store(IBV_QPS_ERR);
    fits = flush_receives(process, qp);
    if (event) raise_on_qp(process, qp, *event);
    // It takes no more from SRQs: whoever closes the connection waits for this.
    if (qp.srq != 0 || qp.type == IBV_QPT_XRC_RECV)
      raise_on_qp(process, qp, IBV_EVENT_QP_LAST_WQE_REACHED);
  }
  if (!fits) overrun(process, qp.recv_cq);
  if (qp.sends_parked.load() != 0) process.poke(qp.owner.load());
  if (qp.sender_waits.load() != 0) wake_sender(process, qp);
}

void wake_sender(Process& process, QpRecord& qp) {
  qp.sender_waits.store(0);
  const QpRecord& peer = process.shared().qps[qp_index(qp.dest_qpn.load())];
  if (peer.qpn.load() != 0) process.poke(peer.owner.load());
}

}  // namespace hbmwire::emulation::nic

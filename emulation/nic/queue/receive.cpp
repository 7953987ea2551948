// SPDX-License-Identifier: MIT
#include "emulation/nic/queue/receive.hpp"

#include <cerrno>

#include "emulation/common/fault_step.hpp"
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

/// Flushes a receive that the QP has taken from an SRQ and will not use any more. Returns false if
/// the CQ overran.
bool flush_taken(Process& process, QpRecord& qp) {
  if (qp.taken.valid.load() == 0) return true;
  SharedState& shared = process.shared();
  SrqRecord& srq = shared.srqs[qp_index(qp.taken.srq_number)];
  bool was_taken = false;
  {
    const Hold guard(srq.mutex);
    was_taken = guard.held() && srq.number.load() == qp.taken.srq_number &&
                srq.receives.head > qp.taken.position;
  }
  if (!was_taken) return true;
  count_receive(process, qp.port, IBV_WC_WR_FLUSH_ERR);
  const std::uint32_t cq = qp.type == IBV_QPT_XRC_RECV ? srq.cq : qp.recv_cq;
  return push_receive(process, cq, qp, flushed(qp, qp.taken.entry.wr_id), false);
}

/// Flushes all receives. QpRecord::queue is held. Returns false if the CQ overran.
bool flush_receives(Process& process, QpRecord& qp) {
  bool fits = flush_taken(process, qp);
  while (has_receive(qp)) {
    ReceiveEntry oldest;
    copy_oldest(process, qp.receives, oldest);
    count_receive(process, qp.port, IBV_WC_WR_FLUSH_ERR);
    fits = push_receive(process, qp.recv_cq, qp, flushed(qp, oldest.wr_id), false) && fits;
  }
  return fits;
}

/// Whether a receive is posted; if not, notes that a sender waits. QpRecord::queue is held. The
/// note and the posting of a receive cannot miss each other: each side stores first and then looks
/// at the other side's store.
bool posted_or_wait(QpRecord& qp) {
  if (has_receive(qp)) return true;
  qp.sender_waits.store(1);
  return has_receive(qp);
}

}  // namespace

void QueueHold::finish_consumption(Process& process, const QpRecord& qp) {
  // A CqHold finishes what a dead holder of the CQ's lock left half done.
  const CqHold repairs(process, process.shared().cqs[qp.recv_cq]);
}

ReceiveSource receives_of(SharedState& shared, QpRecord& qp) {
  if (qp.srq == 0) return {qp, 0, qp.recv_cq, {qp.owner.load(), qp.pd}};
  const SrqRecord& srq = shared.srqs[qp.srq];
  return {qp, qp.srq, qp.recv_cq, {srq.owner.load(), srq.pd}};
}

int post_receive(Process& process, QpRecord& qp, const ibv_recv_wr& request) {
  const bool has_queue = qp.srq == 0 && qp.type != IBV_QPT_XRC_SEND && qp.type != IBV_QPT_XRC_RECV;
  if (!has_queue) return EINVAL;
  {
    const FavouredHold guard(qp.posting, Place::posting);
    if (!guard.held()) return EAGAIN;
    if (qp.state.load() == IBV_QPS_RESET) return EINVAL;
    if (!make_room(qp)) {
      // A receive may be complete but not yet consumed. If its completer was killed there, only
      // QueueHold consumes it.
      const QueueHold behind(process, qp);
      if (!behind.held()) return EAGAIN;
      make_room(qp);
    }
    if (const int error = append_receive(process, qp.posted, request); error != 0) return error;
  }
  // A mover to ERR stores the state before it flushes the receives, and this thread posts before it
  // loads the state. So at least one of the two flushes this receive.
  if (qp.state.load() == IBV_QPS_ERR) enter_error(process, qp, qp.qpn.load(), std::nullopt);
  if (qp.sender_waits.load() != 0) wake_sender(process, qp);
  return 0;
}

void prefetch_receive(Process& process, const QpRecord& qp) {
  SharedState& shared = process.shared();
  if (qp.next_receive != 0) prefetch_to_read(process.at<std::byte>(qp.next_receive));
  prefetch_to_write(qp.srq != 0 ? &shared.srqs[qp.srq].mutex : &qp.queue);
  prefetch_to_write(&shared.cqs[qp.recv_cq].mutex);
}

Taking look_for_receive(Process& process, const ReceiveSource& source) {
  if (source.srq != 0) return look_for_shared_receive(process, source.srq, source.qp.taken);
  const QueueHold guard(process, source.qp);
  if (!guard.held()) return Taking::held;
  return posted_or_wait(source.qp) ? Taking::taken : Taking::none;
}

Taking take_receive(Process& process, const ReceiveSource& source, ReceiveEntry& entry) {
  if (source.srq != 0) {
    // For XRC: the QP may still have a receive that it took from another SRQ for an earlier
    // message.
    if (source.srq_number != 0 && source.qp.taken.srq_number != source.srq_number)
      flush_taken(process, source.qp);
    const Taking taking = take_shared_receive(process, source.srq, source.qp.taken);
    if (taking == Taking::taken) entry = source.qp.taken.entry;
    fault_step("receive_taken");
    return taking;
  }
  const QueueHold guard(process, source.qp);
  if (!guard.held()) return Taking::held;
  if (!posted_or_wait(source.qp)) return Taking::none;
  prefetch_push(process, source.cq);
  copy_oldest(process, source.qp.receives, entry);
  source.qp.next_receive = offset_behind_oldest(source.qp.receives);
  fault_step("receive_taken");
  return Taking::taken;
}

ReceiveCompletion::ReceiveCompletion(Process& process, const ReceiveSource& source)
    : process_(process), source_(source) {
  // For XRC, the SRQ's lock keeps the SRQ, and with it the SRQ's CQ. A receive of another SRQ
  // belongs to the QP already and needs no lock.
  if (source.srq_number != 0) {
    hold_.emplace(process.shared().srqs[source.srq].mutex);
  } else if (source.srq == 0) {
    hold_.emplace(source.qp.queue);
  }
}

/// The receive has to complete once the requester was told that its message arrived. If a stopped
/// process takes the CQ after this look, the completion is put off.
bool ReceiveCompletion::may_be_had() const {
  if (hold_ && !hold_->held()) return false;
  CqRecord& cq = process_.shared().cqs[source_.cq];
  return !cq.mutex.may_be_taken() || CqHold(process_, cq).held();
}

void ReceiveCompletion::finish(const Cqe& entry, bool solicited) {
  count_receive(process_, source_.qp.port, static_cast<ibv_wc_status>(entry.status));
  bool fits = true;
  const bool gone = source_.srq_number != 0 &&
                    process_.shared().srqs[source_.srq].number.load() != source_.srq_number;
  if (!gone) fits = push_receive(process_, source_.cq, source_.qp, entry, solicited);
  hold_.reset();
  if (fits) return;
  overrun(process_, source_.cq);
  if (source_.srq_number != 0)
    enter_error(process_, source_.qp, source_.qp.qpn.load(), IBV_EVENT_QP_FATAL);
}

void note_arrival(Process& process, QpRecord& qp) {
  if (qp.state.load() != IBV_QPS_RTR || qp.established != 0) return;
  const QueueHold guard(process, qp);
  if (!guard.held()) return;  // the next message raises it
  raise_on_qp(process, qp, IBV_EVENT_COMM_EST);
  qp.established = 1;
}

namespace {

void wake_parties(Process& process, QpRecord& qp) {
  if (qp.sends_parked.load() != 0) process.poke(qp.owner.load());
  if (qp.sender_waits.load() != 0) wake_sender(process, qp);
}

bool can_fail(const QpRecord& qp, std::uint32_t qpn) {
  return qp.qpn.load() == qpn && qp.state.load(std::memory_order_relaxed) != IBV_QPS_RESET;
}

/// The consequences of a move to ERR. QpRecord::queue is held. Returns false if the CQ overran.
bool fail(Process& process, QpRecord& qp, std::optional<ibv_event_type> event) {
  const bool fits = flush_receives(process, qp);
  if (event) raise_on_qp(process, qp, *event);
  // The QP takes no more receives from SRQs; a program that closes the connection waits for this
  // event.
  const bool tells = process.shared().ports[qp.port].behaviour.last_wqe;
  if (tells && (qp.srq != 0 || qp.type == IBV_QPT_XRC_RECV) && qp.last_wqe == 0) {
    raise_on_qp(process, qp, IBV_EVENT_QP_LAST_WQE_REACHED);
    qp.last_wqe = 1;
  }
  return fits;
}

}  // namespace

void enter_error(Process& process, QpRecord& qp, std::uint32_t qpn,
                 std::optional<ibv_event_type> event) {
  bool fits = true;
  {
    const QueueHold guard(process, qp);
    if (!can_fail(qp, qpn)) return;
    // Only the first move to ERR raises an event.
    if (set_state(qp, IBV_QPS_ERR) == IBV_QPS_ERR) event = std::nullopt;
    fault_step("failing");
    if (guard.held()) {
      fits = fail(process, qp, event);
    } else {
      process.owe([&process, &qp, qpn, event] {
        const QueueHold queue(process, qp, WithoutWaiting{});
        if (!queue.held()) return false;
        if (can_fail(qp, qpn) && qp.state.load() == IBV_QPS_ERR) fail(process, qp, event);
        return true;
      });
    }
  }
  if (!fits) overrun(process, qp.recv_cq);
  wake_parties(process, qp);
}

void wake_sender(Process& process, QpRecord& qp) {
  qp.sender_waits.store(0);
  const QpRecord& peer = process.shared().qps[qp_index(qp.dest_qpn.load())];
  if (peer.qpn.load() != 0) process.poke(peer.owner.load());
}

}  // namespace hbmwire::emulation::nic

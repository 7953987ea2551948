// SPDX-License-Identifier: MIT
#include "emulation/nic/queue/receive.hpp"

#include <cerrno>
#include <cstring>
#include <mutex>

#include "emulation/nic/queue/completion.hpp"
#include "emulation/nic/queue/events.hpp"

namespace hbmwire::emulation::nic {
namespace {

ReceiveEntry* entry_at(Process& process, const QpRecord& qp, std::uint64_t position) {
  return process.at<ReceiveEntry>(qp.ring + position % qp.depth * receive_stride(qp.max_sge));
}

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
  while (qp.head != qp.tail.load(std::memory_order_relaxed)) {
    const Cqe entry = flushed(qp, entry_at(process, qp, qp.head)->wr_id);
    ++qp.head;
    fits = push(process, qp.recv_cq, entry, false) && fits;
  }
  return fits;
}

}  // namespace

int post_receive(Process& process, QpRecord& qp, const ibv_recv_wr& request) {
  if (request.num_sge < 0 || static_cast<std::uint32_t>(request.num_sge) > qp.max_sge)
    return EINVAL;
  bool fits = true;
  bool wake = false;
  {
    const std::lock_guard guard(qp.queue);
    const std::uint32_t state = qp.state.load(std::memory_order_relaxed);
    if (state == IBV_QPS_RESET) return EINVAL;
    if (state == IBV_QPS_ERR) {
      fits = push(process, qp.recv_cq, flushed(qp, request.wr_id), false);
    } else {
      const std::uint64_t tail = qp.tail.load(std::memory_order_relaxed);
      if (tail - qp.head >= qp.depth) return ENOMEM;
      ReceiveEntry* entry = entry_at(process, qp, tail);
      entry->wr_id = request.wr_id;
      entry->num_sge = static_cast<std::uint64_t>(request.num_sge);
      if (request.num_sge != 0) {
        std::memcpy(entry->sge, request.sg_list,
                    static_cast<std::size_t>(request.num_sge) * sizeof(ibv_sge));
      }
      qp.tail.store(tail + 1, std::memory_order_relaxed);
      wake = qp.sender_waits.load(std::memory_order_relaxed) != 0;
    }
  }
  if (!fits) overrun(process, qp.recv_cq);
  if (wake) wake_sender(process, qp);
  return 0;
}

bool peek_receive(Process& process, QpRecord& qp, ReceiveEntry& entry) {
  const std::lock_guard guard(qp.queue);
  if (qp.head == qp.tail.load(std::memory_order_relaxed)) {
    qp.sender_waits.store(
        1);  // under the lock that posting takes: it either was seen above or sees this
    return false;
  }
  const ReceiveEntry* posted = entry_at(process, qp, qp.head);
  entry.wr_id = posted->wr_id;
  entry.num_sge = posted->num_sge;
  std::memcpy(entry.sge, posted->sge, posted->num_sge * sizeof(ibv_sge));
  return true;
}

void finish_receive(Process& process, QpRecord& qp, const Cqe& entry, bool solicited) {
  bool fits = true;
  {
    const std::lock_guard guard(qp.queue);
    // An overrun of another queue may have flushed it in between.
    if (qp.head == qp.tail.load(std::memory_order_relaxed)) return;
    ++qp.head;
    fits = push(process, qp.recv_cq, entry, solicited);
  }
  if (!fits) overrun(process, qp.recv_cq);
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
    if (event) raise_async(process, qp.owner.load(), qp.events, *event);
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

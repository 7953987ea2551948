// SPDX-License-Identifier: MIT
#include "emulation/common/faults.hpp"
#include "emulation/nic/memory/region.hpp"
#include "emulation/nic/queue/completion.hpp"
#include "emulation/nic/queue/qp_table.hpp"
#include "emulation/nic/queue/receive.hpp"
#include "emulation/nic/queue/sender.hpp"
#include "emulation/nic/state/activity.hpp"
#include "emulation/nic/state/planned_faults.hpp"
#include "emulation/nic/state/ports.hpp"
#include "emulation/nic/state/receive_ring.hpp"

/// The express lane is a fast path for the most common requests: an RDMA WRITE, READ or SEND of one
/// element on an RC queue pair. The memory must be this process' own, mapped here, or private to
/// the peer; the locks must favour the thread; nothing may wait, take time or be planned to fail.
/// The lane takes the same locks in the same order as the general path and makes the same checks,
/// all in one function. Checks whose result cannot have changed are replaced by one comparison
/// (ExpressLane). If anything is not as expected, the general path starts over with the request.
namespace hbmwire::emulation::nic {
namespace {

/// The checks of Attempt::reachable() and of the reliable transports, except those whose result
/// another thread may change without the responder's lock.
bool is_ours(const SharedState& shared, const QpRecord& responder, const QpRecord& requester,
             const Connection& connection) {
  return responder.qpn.load() == connection.dest_qpn && responder.type == IBV_QPT_RC &&
         responder.dest_qpn.load() == requester.qpn.load() &&
         responder.path_mtu == connection.path_mtu &&
         responder.expected_psn == connection.next_psn && requester.lid == responder.lid &&
         is_at(shared, responder, connection.to);
}

}  // namespace

/// Opens the lane if the responder takes this sender's requests, and takes them at once. The
/// responder's lock is held.
bool Sender::open_lane(QpRecord& responder) noexcept {
  lane_ = {};
  SharedState& shared = process_.shared();
  const std::uint32_t conditions = shared.header.conditions.load();
  const std::uint64_t readiness = responder.readiness.load();
  const bool at_once = static_cast<std::uint32_t>(readiness) == IBV_QPS_RTS &&
                       record_.type == IBV_QPT_RC && !completes_later_ && flights_.empty() &&
                       record_.traffic.noted == Traffic::known &&
                       shared.header.takes_time.load() == 0;
  if (!at_once || !is_ours(shared, responder, record_, connection) ||
      record_.traffic.peer_port != responder.port || !link_is_up(shared, record_.port) ||
      !link_is_up(shared, responder.port)) {
    return false;
  }
  lane_.responder = &responder;
  lane_.readiness = readiness;
  lane_.conditions = conditions;
  lane_.responder_owner = responder.owner.load();
  lane_.life = &shared.processes[lane_.responder_owner].life;
  return true;
}

/// Looks up an MR, unless it is the last one for this use. Returns false if the lane cannot use it:
/// it must be mapped here or private to its owner, and bytes must land in order and at once.
bool Sender::find(ExpressLane::Use use, const Party& party, const Access& access) noexcept {
  ExpressLane::Region& region = lane_.regions[use];
  if (region.serves(access.key, access.address, access.length)) return true;
  const std::uint32_t index = access.key >> 8U;
  if (index == 0 || index >= kMaxMrs) return false;
  const MrRecord& mr = process_.shared().mrs[index];
  if (!allows(mr, party, access) || mr.posted_fd >= 0 ||
      (mr.access & IBV_ACCESS_RELAXED_ORDERING) != 0) {
    return false;
  }
  ExpressLane::Region found{&mr,        mr.serial, mr.iova, mr.length, mr.address - mr.iova,
                            access.key, 0};
  std::shared_ptr<Backing> backing;
  if (party.slot != process_.slot()) {
    if (mr.kind == MrRecord::private_memory) {
      found.foreign_pid = process_.pid_of(party.slot);
    } else {
      backing = cache.find(mr);
      if (!backing) return false;
      found.shift = reinterpret_cast<std::uint64_t>(backing->base()) + mr.file_offset - mr.iova;
    }
  }
  region = found;
  lane_.backings[use] = std::move(backing);
  // Checks again: if the owner was killed, the record may belong to another MR by now.
  return region.serves(access.key, access.address, access.length);
}

/// Finds the memory at the responder: the region that a WRITE or READ names, or the oldest receive.
/// The responder's lock is held.
bool Sender::find_there(const ibv_send_wr& wr, QpRecord& responder) noexcept {
  const Party party{lane_.responder_owner, responder.pd};
  const std::uint32_t bytes = wr.sg_list->length;
  if (wr.opcode != IBV_WR_SEND) {
    const bool reads = wr.opcode == IBV_WR_RDMA_READ;
    const std::uint32_t right = reads ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
    if ((responder.access & right) == 0 || (reads && responder.max_dest_rd_atomic == 0))
      return false;
    return find(reads ? ExpressLane::fetched : ExpressLane::written, party,
                {wr.wr.rdma.rkey, wr.wr.rdma.remote_addr, bytes, right});
  }
  if (responder.srq != 0 || responder.scatters != 0) return false;
  const QueueHold queue(process_, responder);
  if (!queue.held() || !has_receive(responder)) return false;
  const ReceiveEntry& receive = oldest_receive(process_, responder.receives);
  if (receive.num_sge != 1 || receive.sge[0].length < bytes) return false;
  return find(ExpressLane::received, party,
              {receive.sge[0].lkey, receive.sge[0].addr, bytes, IBV_ACCESS_LOCAL_WRITE});
}

/// Finds out the facts that the lane lacks for a request. Returns false if the lane cannot take the
/// request.
[[gnu::noinline]] bool Sender::learn(const ibv_send_wr& wr) noexcept {
  QpRecord& responder = process_.shared().qps[qp_index(connection.dest_qpn)];
  const Activity activity(process_);
  const FavouredHold guard(responder.responder, Place::responder);
  if (!guard.held()) return false;
  const bool open = lane_.responder == &responder &&
                    lane_.readiness == responder.readiness.load() &&
                    lane_.conditions == process_.shared().header.conditions.load();
  if (!open && !open_lane(responder)) return false;
  const ibv_sge& element = *wr.sg_list;
  const bool reads = wr.opcode == IBV_WR_RDMA_READ;
  constexpr std::uint32_t kWrite = IBV_ACCESS_LOCAL_WRITE;
  const bool has_local =
      (wr.send_flags & IBV_SEND_INLINE) != 0 ||
      find(reads ? ExpressLane::filled : ExpressLane::sent, {process_.slot(), record_.pd},
           {element.lkey, element.addr, element.length, reads ? kWrite : 0U});
  return has_local && find_there(wr, responder);
}

[[gnu::always_inline]] inline bool Sender::is_expressible(const ibv_send_wr& wr) const {
  constexpr unsigned kFlags =
      IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
  const std::uint32_t most =
      (wr.send_flags & IBV_SEND_INLINE) != 0 ? limits_.max_inline_bytes : kMaxMessageBytes;
  // A length of 0 wraps around and is refused as well.
  return wr.num_sge == 1 && (wr.send_flags & ~kFlags) == 0 && wr.sg_list->length - 1U < most &&
         record_.state.load() == IBV_QPS_RTS && has_room(1);
}

/// Calls `act` in an Activity and with the responder's lock held, if all facts still hold. kHere is
/// the use of the request's own memory.
template <ExpressLane::Use kHere, typename Act>
[[gnu::always_inline]] inline Sender::Delivered Sender::at_responder(const ibv_send_wr& wr, Own own,
                                                                     Act act) {
  if (lane_.responder == nullptr) return Delivered::unknown;
  QpRecord& responder = *lane_.responder;
  const MarkedActivity activity(*own.mark);
  std::uint64_t here = wr.sg_list->addr;
  if ((wr.send_flags & IBV_SEND_INLINE) == 0) {
    const ExpressLane::Region& region = lane_.regions[kHere];
    if (!region.serves(wr.sg_list->lkey, here, wr.sg_list->length)) return Delivered::unknown;
    here = region.at(here);
  }
  if (!responder.responder.enter(own.mark, own.token, Place::responder)) return Delivered::no;
  const MarkedHold guard(*own.mark, Place::responder);
  const Header& header = process_.shared().header;
  if (lane_.readiness != responder.readiness.load() ||
      lane_.conditions != header.conditions.load()) {
    return Delivered::unknown;
  }
  if (!lane_.life->is_given() && !process_.alive(lane_.responder_owner)) return Delivered::no;
  return act(here, responder);
}

/// Advances the PSNs of both sides by the message's packets. Returns their number.
[[gnu::always_inline]] inline std::uint32_t Sender::count_packets(QpRecord& responder,
                                                                  std::uint32_t bytes) noexcept {
  const std::uint32_t mtu_shift = connection.path_mtu + 7U;  // IBV_MTU_256 is 1, and 2^8 is 256
  const std::uint32_t packets = (bytes + (1U << mtu_shift) - 1) >> mtu_shift;
  connection.next_psn = responder.expected_psn = (connection.next_psn + packets) & 0xffffffU;
  return packets;
}

[[gnu::always_inline]] inline Sender::Delivered Sender::write(const ibv_send_wr& wr,
                                                              std::uint64_t from,
                                                              QpRecord& responder) noexcept {
  const ExpressLane::Region& region = lane_.regions[ExpressLane::written];
  const std::uint32_t bytes = wr.sg_list->length;
  const std::uint64_t remote = wr.wr.rdma.remote_addr;
  if (!region.serves(wr.wr.rdma.rkey, remote, bytes)) return Delivered::unknown;
  const std::uint64_t to = region.at(remote);
  const std::int32_t foreign_pid = region.foreign_pid;
  if (foreign_pid != 0 && move_there(foreign_pid, to, from, bytes) != 0)
    return Delivered::no;  // the general path tries again and reports the error
  Traffic& traffic = record_.traffic;
  traffic.xmit_bytes += bytes;
  traffic.xmit_packets += count_packets(responder, bytes);
  ++traffic.writes;
  if (foreign_pid == 0) move_here(to, from, bytes, &recent_targets);
  return Delivered::yes;
}

[[gnu::always_inline]] inline Sender::Delivered Sender::read(const ibv_send_wr& wr,
                                                             std::uint64_t to,
                                                             QpRecord& responder) noexcept {
  const ExpressLane::Region& region = lane_.regions[ExpressLane::fetched];
  const std::uint32_t bytes = wr.sg_list->length;
  const std::uint64_t remote = wr.wr.rdma.remote_addr;
  if (!region.serves(wr.wr.rdma.rkey, remote, bytes)) return Delivered::unknown;
  const std::uint64_t from = region.at(remote);
  if (region.foreign_pid == 0) {
    move_here(to, from, bytes, &recent_targets);
  } else if (move_from(region.foreign_pid, to, from, bytes) != 0) {
    return Delivered::no;
  }
  Traffic& traffic = record_.traffic;
  traffic.rcv_bytes += bytes;
  traffic.rcv_packets += count_packets(responder, bytes);
  ++traffic.xmit_packets;
  ++traffic.reads;
  return Delivered::yes;
}

inline SendCompletion Sender::completion_of(const ibv_send_wr& wr, ibv_wc_opcode opcode) const {
  return {wr.wr_id, posted_, static_cast<std::uint32_t>(opcode), wr.sg_list->length, qpn_};
}

[[gnu::noinline]] bool Sender::complete_generally(const ibv_send_wr& wr, ibv_wc_opcode opcode) {
  Cqe entry;
  fill(entry, completion_of(wr, opcode));
  return push(process_, record_.send_cq, entry, false);
}

/// Completes the request. Returns false if the CQ overran.
[[gnu::always_inline]] inline bool Sender::complete_express(const ibv_send_wr& wr, Own own,
                                                            ibv_wc_opcode opcode) {
  if (!limits_.signal_all && (wr.send_flags & IBV_SEND_SIGNALED) == 0) return true;
  return push_at_once(process_, send_cq_, own.mark, own.token,
                      [&] { return completion_of(wr, opcode); }) ||
         complete_generally(wr, opcode);
}

/// Work for a message that is due once no queue lock is held.
struct Sender::Message {
  bool fits_here = true;
  bool fits_there = true;
};

/// Delivers a SEND to the oldest receive of the responder's own queue, with the lock of that queue.
/// This is the only read of data that the responder wrote last.
[[gnu::always_inline]] inline Sender::Delivered Sender::send(const ibv_send_wr& wr, Own own,
                                                             std::uint64_t from,
                                                             QpRecord& responder,
                                                             Message& message) {
  if (responder.srq != 0 || responder.scatters != 0) return Delivered::no;
  const std::uint32_t bytes = wr.sg_list->length;
  CqRecord& cq = process_.shared().cqs[responder.recv_cq];
  const QueueHold queue(process_, responder);
  if (!queue.held() || !has_receive(responder) || cq.mutex.may_be_taken()) return Delivered::no;
  const ReceiveEntry& receive = oldest_receive(process_, responder.receives);
  const ibv_sge target = receive.sge[0];
  if (receive.num_sge != 1 || target.length < bytes) return Delivered::no;
  const ExpressLane::Region& region = lane_.regions[ExpressLane::received];
  if (!region.serves(target.lkey, target.addr, bytes)) return Delivered::unknown;
  const std::uint64_t to = region.at(target.addr);
  const std::int32_t foreign_pid = region.foreign_pid;
  if (foreign_pid != 0 && move_there(foreign_pid, to, from, bytes) != 0) return Delivered::no;
  if (foreign_pid == 0) move_here(to, from, bytes, &recent_targets);
  record_.traffic.xmit_bytes += bytes;
  record_.traffic.xmit_packets += count_packets(responder, bytes);
  responder.next_receive = offset_behind_oldest(responder.receives);
  ++posted_;
  // As Attempt::report does: the requester's completion comes first, unless both go into one queue.
  const bool one_queue = responder.recv_cq == record_.send_cq;
  if (!one_queue) message.fits_here = complete_express(wr, own, IBV_WC_SEND);
  Cqe entry;
  fill(entry, {receive.wr_id, 0, IBV_WC_RECV, bytes, connection.dest_qpn});
  entry.source_qpn = record_.qpn.load(std::memory_order_relaxed);
  message.fits_there = push_receive(process_, responder.recv_cq, responder, entry,
                                    (wr.send_flags & IBV_SEND_SOLICITED) != 0);
  if (one_queue) message.fits_here = complete_express(wr, own, IBV_WC_SEND);
  return Delivered::yes;
}

/// Prefetches the lines that the peer wrote last, all at once. One after the other, each would take
/// a hop between processors.
[[gnu::noinline]] bool Sender::express_message(const ibv_send_wr& wr, Own own) {
  if (const QpRecord* responder = lane_.responder; responder != nullptr) {
    prefetch_receive(process_, *responder);
    prefetch_push(process_, responder->recv_cq);
  }
  Message message;
  const auto deliver = [&] {
    return at_responder<ExpressLane::sent>(wr, own, [&](std::uint64_t from, QpRecord& responder) {
      return send(wr, own, from, responder, message);
    });
  };
  Delivered delivered = deliver();
  if (delivered == Delivered::unknown && learn(wr)) delivered = deliver();
  if (delivered != Delivered::yes) return false;
  if (!message.fits_there) overrun(process_, lane_.responder->recv_cq);
  if (!message.fits_here) overrun(process_, record_.send_cq);
  return true;
}

/// READs that scatter into completions take the general path.
[[gnu::noinline]] bool Sender::express_read(const ibv_send_wr& wr, Own own) {
  if ((wr.send_flags & IBV_SEND_INLINE) != 0 || record_.scatters != 0) return false;
  const auto deliver = [&] {
    return at_responder<ExpressLane::filled>(
        wr, own, [&](std::uint64_t to, QpRecord& responder) { return read(wr, to, responder); });
  };
  Delivered delivered = deliver();
  if (delivered == Delivered::unknown && learn(wr)) delivered = deliver();
  if (delivered != Delivered::yes) return false;
  ++posted_;
  if (!complete_express(wr, own, IBV_WC_RDMA_READ)) overrun(process_, record_.send_cq);
  return true;
}

/// Tries the lane, with the mutex held by the mark. Returns false, having done nothing, if the
/// request is not for the lane.
[[gnu::always_inline]] inline bool Sender::express(const ibv_send_wr& wr, Own own) {
  if (!is_expressible(wr)) return false;
  if (wr.opcode != IBV_WR_RDMA_WRITE) [[unlikely]] {
    return (wr.opcode == IBV_WR_SEND && express_message(wr, own)) ||
           (wr.opcode == IBV_WR_RDMA_READ && express_read(wr, own));
  }
  bool learned = false;
  for (;;) {
    const Delivered delivered = at_responder<ExpressLane::sent>(
        wr, own,
        [&](std::uint64_t from, QpRecord& responder) { return write(wr, from, responder); });
    if (delivered == Delivered::yes) [[likely]]
      break;
    if (delivered == Delivered::no || learned || !learn(wr)) return false;
    learned = true;
  }
  ++posted_;
  if (!complete_express(wr, own, IBV_WC_RDMA_WRITE)) overrun(process_, record_.send_cq);
  return true;
}

/// Also used in a forked child, whose threads have no marks.
int Sender::post_generally(ibv_send_wr* first, ibv_send_wr** bad) {
  if (const int error = data_path_failure(process_, "ibv_post_send"); error != 0) {
    *bad = first;
    return error;
  }
  const std::lock_guard guard(mutex);
  for (ibv_send_wr* wr = first; wr != nullptr; wr = wr->next) {
    if (const int error = post_locked(*wr); error != 0) {
      *bad = wr;
      return error;
    }
  }
  return 0;
}

int Sender::post(ibv_send_wr* first, ibv_send_wr** bad) {
  using Point = FaultRule::Point;
  const Own own{OwnMark::get(), OwnMark::token()};
  if (FaultPlan::plans(Point::call, Point::operation, Point::step) ||
      !mutex.favoured().enter(own.mark, own.token, Place::sender)) {
    return post_generally(first, bad);
  }
  const MarkedHold guard(*own.mark, Place::sender);
  for (ibv_send_wr* wr = first; wr != nullptr; wr = wr->next) {
    if (express(*wr, own)) [[likely]]
      continue;
    if (const int error = post_locked(*wr); error != 0) {
      *bad = wr;
      return error;
    }
  }
  return 0;
}

}  // namespace hbmwire::emulation::nic

// SPDX-License-Identifier: MIT
#include "emulation/common/faults.hpp"
#include "emulation/nic/memory/region.hpp"
#include "emulation/nic/queue/completion.hpp"
#include "emulation/nic/queue/qp_table.hpp"
#include "emulation/nic/queue/sender.hpp"
#include "emulation/nic/state/activity.hpp"
#include "emulation/nic/state/ports.hpp"

/// The request that programs make most: an RDMA WRITE of one element on an RC queue pair, between
/// memory of this process and memory that is mapped here or private to the peer, by a thread that
/// the locks favour, while nothing waits, takes time or is planned to fail. It takes the same locks
/// in the same order as any other, in one function, and checks the same; what can't have changed
/// since it was checked last is known by one look (ExpressLane). What is not as it expects is left
/// to the general way, which begins anew.
namespace hbmwire::emulation::nic {
namespace {

/// Looks an MR up that is mapped here or private to its owner, and whose bytes land in order and
/// for good.
bool find(const Process& process, const RegionCache& cache, const Party& party,
          const Access& access, ExpressLane::Region& region) {
  const std::uint32_t index = access.key >> 8U;
  if (index == 0 || index >= kMaxMrs) return false;
  const MrRecord& mr = process.shared().mrs[index];
  if (!allows(mr, party, access) || mr.posted_fd >= 0 ||
      (mr.access & IBV_ACCESS_RELAXED_ORDERING) != 0) {
    return false;
  }
  ExpressLane::Region found{&mr,       access.key,           mr.serial, mr.iova,
                            mr.length, mr.address - mr.iova, 0,         nullptr};
  if (party.slot != process.slot()) {
    if (mr.kind == MrRecord::private_memory) {
      found.foreign_pid = process.pid_of(party.slot);
    } else {
      found.backing = cache.find(mr);
      if (!found.backing) return false;
      found.shift =
          reinterpret_cast<std::uint64_t>(found.backing->base()) + mr.file_offset - mr.iova;
    }
  }
  region = std::move(found);
  // Of a process that was killed the record may be another's by now.
  return region.serves(access.key, access.address, access.length);
}

/// As Attempt::reachable() and what the reliable transports ask besides, but for what may change
/// without the responder's lock.
bool is_ours(const QpRecord& responder, const QpRecord& requester, const Connection& connection) {
  return responder.qpn.load() == connection.dest_qpn && responder.type == IBV_QPT_RC &&
         responder.dest_qpn.load() == requester.qpn.load() &&
         responder.path_mtu == connection.path_mtu &&
         responder.expected_psn == connection.next_psn && requester.lid == responder.lid &&
         (responder.access & IBV_ACCESS_REMOTE_WRITE) != 0 && is_at(responder, connection.to);
}

}  // namespace

/// With the responder's lock held: whether it takes what this sender sends, and at once.
bool Sender::open_lane(QpRecord& responder) noexcept {
  lane_ = {};
  SharedState& shared = process_.shared();
  const std::uint32_t conditions = shared.header.conditions.load();
  const bool at_once = record_.type == IBV_QPT_RC && !completes_later_ && flights_.empty() &&
                       record_.traffic.noted == Traffic::known &&
                       shared.header.takes_time.load() == 0;
  if (!at_once || !is_ours(responder, record_, connection) ||
      record_.traffic.peer_port != responder.port || !link_is_up(shared, record_.port) ||
      !link_is_up(shared, responder.port)) {
    return false;
  }
  lane_.responder = &responder;
  lane_.configured = responder.configured;
  lane_.conditions = conditions;
  lane_.responder_owner = responder.owner.load();
  lane_.life = &shared.processes[lane_.responder_owner].life;
  return true;
}

/// Finds out what the lane lacks for a request. False: it is not one for the lane.
[[gnu::noinline]] bool Sender::learn(const ibv_send_wr& wr) noexcept {
  QpRecord& responder = process_.shared().qps[qp_index(connection.dest_qpn)];
  const Activity activity(process_);
  const FavouredHold guard(responder.responder, Place::responder);
  if (!guard.held()) return false;
  const bool open = lane_.responder == &responder && lane_.configured == responder.configured &&
                    lane_.conditions == process_.shared().header.conditions.load();
  if (!open && !open_lane(responder)) return false;
  const ibv_sge& element = *wr.sg_list;
  const std::uint64_t remote = wr.wr.rdma.remote_addr;
  const bool has_local = (wr.send_flags & IBV_SEND_INLINE) != 0 ||
                         lane_.local.serves(element.lkey, element.addr, element.length) ||
                         find(process_, cache, {process_.slot(), record_.pd},
                              {element.lkey, element.addr, element.length, 0}, lane_.local);
  const bool has_remote =
      lane_.remote.serves(wr.wr.rdma.rkey, remote, element.length) ||
      find(process_, cache, {lane_.responder_owner, responder.pd},
           {wr.wr.rdma.rkey, remote, element.length, IBV_ACCESS_REMOTE_WRITE}, lane_.remote);
  return has_local && has_remote;
}

[[gnu::always_inline]] inline bool Sender::is_expressible(const ibv_send_wr& wr) const {
  constexpr unsigned kFlags =
      IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
  const std::uint32_t most =
      (wr.send_flags & IBV_SEND_INLINE) != 0 ? limits_.max_inline_bytes : kMaxMessageBytes;
  return wr.opcode == IBV_WR_RDMA_WRITE && wr.num_sge == 1 && (wr.send_flags & ~kFlags) == 0 &&
         wr.sg_list->length - 1U < most && record_.state.load() == IBV_QPS_RTS && has_room(1) &&
         !FaultPlan::plans(FaultRule::Point::operation, FaultRule::Point::step);
}

/// The bytes, in an Activity and with the responder's lock.
[[gnu::always_inline]] inline Sender::Delivered Sender::deliver_express(const ibv_send_wr& wr,
                                                                        const Own& own) noexcept {
  if (lane_.responder == nullptr) return Delivered::unknown;
  QpRecord& responder = *lane_.responder;
  const MarkedActivity activity(*own.mark);
  const std::uint32_t bytes = wr.sg_list->length;
  std::uint64_t from = wr.sg_list->addr;
  if ((wr.send_flags & IBV_SEND_INLINE) == 0) {
    if (!lane_.local.serves(wr.sg_list->lkey, from, bytes)) return Delivered::unknown;
    from = lane_.local.at(from);
  }
  if (!responder.responder.enter(own.mark, own.token, Place::responder)) return Delivered::no;
  const MarkedHold guard(*own.mark, Place::responder);
  const Header& header = process_.shared().header;
  if (lane_.configured != responder.configured || lane_.conditions != header.conditions.load())
    return Delivered::unknown;
  if (responder.state.load() != IBV_QPS_RTS) return Delivered::no;
  if (!lane_.life->is_given() && !process_.alive(lane_.responder_owner)) return Delivered::no;
  const std::uint64_t remote = wr.wr.rdma.remote_addr;
  if (!lane_.remote.serves(wr.wr.rdma.rkey, remote, bytes)) return Delivered::unknown;
  const std::uint64_t to = lane_.remote.at(remote);
  const std::int32_t foreign_pid = lane_.remote.foreign_pid;
  if (foreign_pid != 0 && move_there(foreign_pid, to, from, bytes) != 0)
    return Delivered::no;  // to be told by the general way, which tries again
  const std::uint32_t mtu_shift = connection.path_mtu + 7U;
  const std::uint32_t packets = (bytes + (1U << mtu_shift) - 1) >> mtu_shift;
  connection.next_psn = responder.expected_psn = (connection.next_psn + packets) & 0xffffffU;
  Traffic& traffic = record_.traffic;
  traffic.xmit_bytes += bytes;
  traffic.xmit_packets += packets;
  ++traffic.writes;
  if (foreign_pid == 0) move_here(to, from, bytes, &recent_targets);
  return Delivered::yes;
}

[[gnu::always_inline]] inline void Sender::complete_express(const ibv_send_wr& wr) {
  if (!limits_.signal_all && (wr.send_flags & IBV_SEND_SIGNALED) == 0) return;
  const SendCompletion done{wr.wr_id, posted_, IBV_WC_RDMA_WRITE, wr.sg_list->length,
                            record_.qpn.load(std::memory_order_relaxed)};
  if (push_at_once(process_, record_.send_cq, done)) [[likely]]
    return;
  Cqe entry;
  fill(entry, done);
  complete(process_, record_.send_cq, entry, false);
}

/// The mutex is held by the mark. False: nothing has happened.
[[gnu::always_inline]] inline bool Sender::express(const ibv_send_wr& wr, const Own& own) {
  if (!is_expressible(wr)) return false;
  bool learned = false;
  for (;;) {
    const Delivered delivered = deliver_express(wr, own);
    if (delivered == Delivered::yes) [[likely]]
      break;
    if (delivered == Delivered::no || learned || !learn(wr)) return false;
    learned = true;
  }
  ++posted_;
  complete_express(wr);
  return true;
}

int Sender::post_generally(ibv_send_wr* first, ibv_send_wr** bad) {
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
  const Own own{OwnMark::get(), OwnMark::token()};
  if (!mutex.favoured().enter(own.mark, own.token, Place::sender))
    return post_generally(first, bad);
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

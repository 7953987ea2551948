// SPDX-License-Identifier: MIT
#include "emulation/common/fault_step.hpp"
#include "emulation/common/faults.hpp"
#include "emulation/nic/memory/region.hpp"
#include "emulation/nic/queue/completion.hpp"
#include "emulation/nic/queue/qp_table.hpp"
#include "emulation/nic/queue/sender.hpp"
#include "emulation/nic/state/activity.hpp"
#include "emulation/nic/state/ports.hpp"

/// The request that programs make most: an RDMA WRITE of one element on an RC queue pair, between
/// memory of this process and memory that is mapped here or private to the peer, while nothing
/// waits, takes time or is planned to fail. It takes the same steps in the same order as any other,
/// with the same locks, in one function, and checks the same; what can't have changed since it was
/// checked last is known by one look (ExpressLane). What is not as it expects is left to the
/// general way, which begins anew.
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
  ExpressLane::Region found{&mr, access.key, mr.serial, mr.iova, mr.length, mr.address, 0, nullptr};
  if (party.slot != process.slot()) {
    if (mr.kind == MrRecord::private_memory) {
      found.foreign_pid = process.pid_of(party.slot);
    } else {
      found.backing = cache.find(mr);
      if (!found.backing) return false;
      found.here = reinterpret_cast<std::uint64_t>(found.backing->base()) + mr.file_offset;
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

bool is_up(const std::atomic<std::uint32_t>& link_changes) {
  return link_changes.load(std::memory_order_acquire) % 2 == 0;
}

}  // namespace

/// With the responder's lock held: whether it takes what this sender sends.
bool Sender::open_lane(QpRecord& responder) noexcept {
  lane_.open = is_ours(responder, record_, connection);
  lane_.turn = responder.responder.turn();
  lane_.remote = {};  // it may be the key of another protection domain
  lane_.responder = &responder;
  lane_.responder_owner = responder.owner.load();
  lane_.life = &process_.shared().processes[lane_.responder_owner].life;
  lane_.links[0] = &process_.shared().ports[record_.port].link_changes;
  lane_.links[1] = &process_.shared().ports[responder.port].link_changes;
  return lane_.open;
}

/// As many bytes of the requester's memory, in an Activity.
bool Sender::find_local(const ibv_sge& element) noexcept {
  return find(process_, cache, {process_.slot(), record_.pd},
              {element.lkey, element.addr, element.length, 0}, lane_.local);
}

/// The same of the responder's, whose lock is held.
bool Sender::find_remote(const ibv_send_wr& wr) noexcept {
  const std::uint32_t rights = IBV_ACCESS_REMOTE_WRITE;
  return find(process_, cache, {lane_.responder_owner, lane_.responder->pd},
              {wr.wr.rdma.rkey, wr.wr.rdma.remote_addr, wr.sg_list->length, rights}, lane_.remote);
}

[[gnu::always_inline]] inline bool Sender::is_expressible(const ibv_send_wr& wr) const {
  constexpr unsigned kFlags =
      IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
  const std::uint32_t most =
      (wr.send_flags & IBV_SEND_INLINE) != 0 ? limits_.max_inline_bytes : kMaxMessageBytes;
  return wr.opcode == IBV_WR_RDMA_WRITE && wr.num_sge == 1 && (wr.send_flags & ~kFlags) == 0 &&
         wr.sg_list->length - 1U < most && record_.type == IBV_QPT_RC && !completes_later_ &&
         flights_.empty() && record_.state.load() == IBV_QPS_RTS && has_room(1) &&
         record_.traffic.noted == Traffic::known &&
         !FaultPlan::plans(FaultRule::Point::operation) &&
         process_.shared().header.takes_time.load(std::memory_order_relaxed) == 0;
}

/// The bytes, with the responder's lock and in an Activity. `rehearsal`: nothing but the checks.
[[gnu::always_inline]] inline bool Sender::deliver_express(const ibv_send_wr& wr,
                                                           bool rehearsal) noexcept {
  QpRecord& responder =
      lane_.open ? *lane_.responder : process_.shared().qps[qp_index(connection.dest_qpn)];
  const Activity activity(process_);
  const std::uint32_t bytes = wr.sg_list->length;
  std::uint64_t from = wr.sg_list->addr;
  if ((wr.send_flags & IBV_SEND_INLINE) == 0) {
    if (!lane_.local.serves(wr.sg_list->lkey, from, bytes) && !find_local(*wr.sg_list))
      return false;
    from = lane_.local.at(from);
  }
  if (!rehearsal) fault_step("located");
  const FavouredHold guard(responder.responder, Place::responder);
  if (!guard.held()) return false;
  if (!rehearsal) fault_step("responder_locked");
  const bool known = lane_.open && lane_.turn == responder.responder.turn();
  if (!known && !open_lane(responder)) return false;
  if (!lane_.life->is_given() && !process_.alive(lane_.responder_owner)) return false;
  if (responder.state.load() != IBV_QPS_RTS || !is_up(*lane_.links[0]) || !is_up(*lane_.links[1]))
    return false;
  const std::uint64_t remote = wr.wr.rdma.remote_addr;
  if (!lane_.remote.serves(wr.wr.rdma.rkey, remote, bytes) && !find_remote(wr)) return false;
  Traffic& traffic = record_.traffic;
  if (traffic.peer_port != responder.port) return false;
  if (rehearsal) return true;
  if (lane_.remote.foreign_pid == 0) [[likely]] {
    move_here(lane_.remote.at(remote), from, bytes, &recent_targets);
  } else if (move_there(lane_.remote.foreign_pid, lane_.remote.at(remote), from, bytes) != 0) {
    return false;  // to be told by the general way, which tries again
  }
  fault_step("moved");
  const std::uint32_t packets =
      (bytes + connection.path_mtu_bytes - 1) >> (connection.path_mtu + 7U);
  connection.next_psn = responder.expected_psn = (connection.next_psn + packets) & 0xffffffU;
  traffic.xmit_bytes += bytes;
  traffic.xmit_packets += packets;
  ++traffic.writes;
  return true;
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

[[gnu::noinline]] bool Sender::rehearse(const ibv_send_wr& wr) { return deliver_express(wr, true); }

/// The mutex is held. False: nothing has happened.
[[gnu::always_inline]] inline bool Sender::express(const ibv_send_wr& wr) {
  if (!is_expressible(wr)) return false;
  // A plan counts its steps: what is left to the general way must not have come to any.
  if (FaultPlan::plans(FaultRule::Point::step) && !rehearse(wr)) [[unlikely]]
    return false;
  fault_step("post");
  if (!deliver_express(wr, false)) return false;
  ++posted_;
  complete_express(wr);
  return true;
}

int Sender::post(const ibv_send_wr* first, const ibv_send_wr** bad) {
  const SenderMutex::Guard guard(mutex);
  for (const ibv_send_wr* wr = first; wr != nullptr; wr = wr->next) {
    if (express(*wr)) [[likely]]
      continue;
    if (const int error = post_locked(*wr); error != 0) {
      *bad = wr;
      return error;
    }
  }
  return 0;
}

}  // namespace hbmwire::emulation::nic

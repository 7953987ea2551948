// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <optional>

#include "emulation/common/faults.hpp"
#include "emulation/nic/memory/mover.hpp"
#include "emulation/nic/memory/region.hpp"
#include "emulation/nic/queue/receive.hpp"
#include "emulation/nic/queue/sender.hpp"
#include "emulation/nic/state/ports.hpp"
#include "emulation/nic/transport/remote_atomic.hpp"
#include "emulation/nic/transport/transport.hpp"

/// Reliable connections. The requester does the responder's work too, with the responder's lock
/// held: checks, receive queue, bytes, both completions. Errors are those of the InfiniBand
/// specification, vol. 1, section 9.9:
///
///   requester's own key, bounds or right          LOC_PROT_ERR
///   responder's key, bounds, PD or right          REM_ACCESS_ERR    responder: QP_ACCESS_ERR, ERR
///   operation not enabled on the responder's QP   REM_INV_REQ_ERR   responder: QP_REQ_ERR, ERR
///   atomic not aligned                            REM_INV_REQ_ERR   responder: QP_REQ_ERR, ERR
///   receive too small                             REM_INV_REQ_ERR   its receive: LOC_LEN_ERR, ERR
///   receive's key, bounds or right                REM_OP_ERR        its receive: LOC_PROT_ERR, ERR
///   no receive posted                             waits, then RNR_RETRY_EXC_ERR
///   responder not there, not ready, not ours      waits, then RETRY_EXC_ERR
namespace hbmwire::emulation::nic {
namespace {

/// One request with what it touches on both sides.
class Attempt {
 public:
  Attempt(Process& process, Sender& sender, const Request& request, QpRecord& responder)
      : process_(process),
        sender_(sender),
        request_(request),
        traits_(*traits_of(request.opcode)),
        responder_(responder),
        responder_qpn_(sender.connection.dest_qpn) {}

  /// The requester's own elements. LOC_PROT_ERR when one is not allowed.
  ibv_wc_status gather() {
    const Party self{process_.slot(), sender_.record().pd};
    for (const ibv_sge& element : request_.elements) {
      if (element.length == 0) continue;
      Segment segment{element.addr, element.length, 0};
      if (!request_.inlined() &&
          !resolve(process_, sender_.cache, self,
                   {element.lkey, element.addr, element.length, traits_.local_access}, segment)) {
        return IBV_WC_LOC_PROT_ERR;
      }
      local_.add(segment);
    }
    return local_.bytes() > kMaxMessageBytes ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
  }

  /// With the responder's lock held: whether its packets would be taken.
  [[nodiscard]] bool reachable() const {
    const std::uint32_t state = responder_.state.load();
    const bool receives = state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD;
    const Connection& connection = sender_.connection;
    const SharedState& shared = process_.shared();
    return responder_.qpn.load() == responder_qpn_ && receives &&
           link_is_up(shared, sender_.record().port) && link_is_up(shared, responder_.port) &&
           responder_.type == sender_.record().type &&
           responder_.dest_qpn.load() == sender_.record().qpn.load() &&
           responder_.path_mtu == connection.path_mtu &&
           responder_.expected_psn == connection.next_psn &&
           std::find(std::begin(responder_.gids), std::end(responder_.gids), connection.dgid) !=
               std::end(responder_.gids);
  }

  Outcome run() {
    ReceiveEntry receive;
    if (traits_.consumes_receive && !peek_receive(process_, responder_, receive)) {
      return {Wait::receiver_not_ready, IBV_WC_SUCCESS, 0, rnr_timer_ns(responder_.min_rnr_timer)};
    }
    Outcome outcome;
    if (traits_.sends_payload) {
      outcome = send(receive);
    } else {
      outcome = access_remote();
      if (traits_.consumes_receive && outcome.wait == Wait::none &&
          outcome.status == IBV_WC_SUCCESS) {
        report(receive, IBV_WC_SUCCESS, IBV_WC_RECV_RDMA_WITH_IMM);
      }
    }
    if (outcome.wait == Wait::none && outcome.status == IBV_WC_SUCCESS) count_packets();
    return outcome;
  }

 private:
  static std::uint64_t rnr_timer_ns(std::uint32_t code);

  Outcome send(const ReceiveEntry& receive) {
    const std::span<const ibv_sge> elements{receive.sge, receive.num_sge};
    std::uint64_t room = 0;
    for (const ibv_sge& element : elements) room += element.length;
    if (room < local_.bytes())
      return fail_receive(receive, IBV_WC_LOC_LEN_ERR, IBV_WC_REM_INV_REQ_ERR);
    const Party peer{responder_.owner.load(), responder_.pd};
    SegmentList target;
    for (const ibv_sge& element : elements) {
      // Elements that the message does not reach are not looked at.
      if (element.length == 0 || target.bytes() >= local_.bytes()) continue;
      Segment segment;
      if (!resolve(process_, sender_.cache, peer,
                   {element.lkey, element.addr, element.length, IBV_ACCESS_LOCAL_WRITE}, segment)) {
        return fail_receive(receive, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR);
      }
      target.add(segment);
    }
    if (const int error = move(target, local_); error == ESRCH)
      return {Wait::unreachable};
    else if (error != 0)
      return fail_receive(receive, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR);
    report(receive, IBV_WC_SUCCESS, IBV_WC_RECV);
    return Outcome::done(IBV_WC_SUCCESS, local_.bytes());
  }

  /// RDMA and atomics.
  Outcome access_remote() {
    const bool atomic = traits_.remote_access == IBV_ACCESS_REMOTE_ATOMIC;
    const bool fetches = traits_.local_access != 0;
    if ((traits_.remote_access & ~responder_.access) != 0 ||
        (fetches && responder_.max_dest_rd_atomic == 0)) {
      return fail_responder(IBV_EVENT_QP_REQ_ERR, IBV_WC_REM_INV_REQ_ERR);
    }
    if (atomic && local_.bytes() != sizeof(std::uint64_t)) return Outcome::done(IBV_WC_LOC_LEN_ERR);
    if (atomic && request_.remote_address % sizeof(std::uint64_t) != 0) {
      return fail_responder(IBV_EVENT_QP_REQ_ERR, IBV_WC_REM_INV_REQ_ERR);
    }
    if (local_.bytes() == 0) return Outcome::done(IBV_WC_SUCCESS);  // no byte, no key needed
    const Party peer{responder_.owner.load(), responder_.pd};
    Segment segment;
    if (!resolve(process_, sender_.cache, peer,
                 {request_.rkey, request_.remote_address, local_.bytes(), traits_.remote_access},
                 segment)) {
      return fail_responder(IBV_EVENT_QP_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR);
    }
    SegmentList remote;
    remote.add(segment);
    int error = 0;
    if (atomic) {
      error = remote_atomic(process_, request_, segment, local_);
    } else {
      error = fetches ? move(local_, remote) : move(remote, local_);
    }
    if (error == ESRCH) return {Wait::unreachable};
    if (error != 0) return fail_responder(IBV_EVENT_QP_ACCESS_ERR, IBV_WC_REM_OP_ERR);
    return Outcome::done(IBV_WC_SUCCESS, local_.bytes());
  }

  int move(const SegmentList& to, const SegmentList& from) {
    if (const int error = move_bytes(to, from); error != 0) return error;
    // Faults happen on the wire, which a queue pair connected to itself does not use.
    if (responder_qpn_ == sender_.record().qpn.load()) return 0;
    FaultPlan& faults = FaultPlan::of_this_process();
    std::uint64_t byte = 0;
    const std::uint64_t length = std::min(to.bytes(), from.bytes());
    if (faults.empty() || length == 0 || !faults.flips(traits_.fault_name, byte)) return 0;
    return flip_bit(to, byte % length);
  }

  void report(const ReceiveEntry& receive, ibv_wc_status status, ibv_wc_opcode opcode) {
    Cqe entry{};
    entry.wr_id = receive.wr_id;
    entry.status = static_cast<std::uint32_t>(status);
    entry.opcode = static_cast<std::uint32_t>(opcode);
    entry.byte_len = static_cast<std::uint32_t>(local_.bytes());
    entry.qpn = responder_qpn_;
    entry.source_qpn = sender_.record().qpn.load();
    if (traits_.has_immediate) {
      entry.immediate = request_.immediate;
      entry.flags = IBV_WC_WITH_IMM;
    }
    entry.time_ns = now_ns();
    finish_receive(process_, responder_, entry, (request_.flags & IBV_SEND_SOLICITED) != 0);
  }

  Outcome fail_receive(const ReceiveEntry& receive, ibv_wc_status there, ibv_wc_status here) {
    report(receive, there, IBV_WC_RECV);
    enter_error(process_, responder_, responder_qpn_, std::nullopt);
    return Outcome::done(here);
  }

  Outcome fail_responder(ibv_event_type event, ibv_wc_status here) {
    enter_error(process_, responder_, responder_qpn_, event);
    return Outcome::done(here);
  }

  /// Both ends count packet sequence numbers, so that a connection of which one end was reset does
  /// not go on.
  void count_packets() {
    const std::uint64_t mtu = sender_.connection.path_mtu_bytes;
    const std::uint64_t packets = std::max<std::uint64_t>(1, (local_.bytes() + mtu - 1) / mtu);
    const auto next =
        static_cast<std::uint32_t>((sender_.connection.next_psn + packets) & 0xffffffU);
    sender_.connection.next_psn = next;
    responder_.expected_psn = next;
  }

  Process& process_;
  Sender& sender_;
  const Request& request_;
  const OpcodeTraits& traits_;
  QpRecord& responder_;
  std::uint32_t responder_qpn_;
  SegmentList local_;
};

/// InfiniBand specification, vol. 1, table 45: min_rnr_timer in units of 10 us.
std::uint64_t Attempt::rnr_timer_ns(std::uint32_t code) {
  static constexpr std::array<std::uint32_t, 32> kTensOfUs{
      65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
      48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
      2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return kTensOfUs[code % kTensOfUs.size()] * 10'000ULL;
}

}  // namespace

Outcome execute_rc(Process& process, Sender& sender, const Request& request) {
  const std::uint32_t dest_qpn = sender.connection.dest_qpn;
  QpRecord& responder = process.shared().qps[qp_index(dest_qpn)];
  Attempt attempt(process, sender, request, responder);
  if (const ibv_wc_status status = attempt.gather(); status != IBV_WC_SUCCESS)
    return Outcome::done(status);
  if (responder.qpn.load() != dest_qpn || dest_qpn == 0) return {Wait::unreachable};
  if (const std::uint32_t owner = responder.owner.load(); !process.alive(owner)) {
    process.reap(owner);
    return {Wait::unreachable};
  }
  const std::lock_guard guard(responder.responder);
  if (!attempt.reachable()) {
    responder.sender_waits.store(1);  // modify_qp looks at it with the lock held
    return {Wait::unreachable};
  }
  return attempt.run();
}

}  // namespace hbmwire::emulation::nic

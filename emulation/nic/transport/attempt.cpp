// SPDX-License-Identifier: MIT
#include "emulation/nic/transport/attempt.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "emulation/common/fault_step.hpp"
#include "emulation/nic/memory/posting.hpp"
#include "emulation/nic/memory/relaxed.hpp"
#include "emulation/nic/memory/window.hpp"
#include "emulation/nic/queue/completion.hpp"
#include "emulation/nic/queue/flight.hpp"
#include "emulation/nic/queue/qp_table.hpp"
#include "emulation/nic/state/ports.hpp"
#include "emulation/nic/state/scattered.hpp"
#include "emulation/nic/transport/remote_atomic.hpp"

namespace hbmwire::emulation::nic {
namespace {

/// min_rnr_timer in units of 10 us: InfiniBand specification, vol. 1, table 45.
std::uint64_t rnr_timer_ns(std::uint32_t code) {
  static constexpr std::array<std::uint32_t, 32> kTensOfUs{
      65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
      48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
      2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return kTensOfUs[code % kTensOfUs.size()] * 10'000ULL;
}

/// The process and PD in which a request's keys are looked up. An XRC QP has no PD: its requests
/// use those of the SRQ.
Party party_of_keys(const ReceiveSource& source) {
  if (source.qp.type == IBV_QPT_XRC_RECV) return source.party;
  return {source.qp.owner.load(), source.qp.pd};
}

}  // namespace

Attempt::~Attempt() { release_scattered(process_, scattered_); }

ibv_wc_status Attempt::gather() {
  const Party self{process_.slot(), sender_.record().pd};
  for (const ibv_sge& element : request_.elements) {
    if (element.length == 0) continue;
    Segment segment = plain_segment(element.addr, element.length);
    if (!request_.inlined() &&
        !resolve(process_, sender_.cache, self,
                 {element.lkey, element.addr, element.length, traits_.local_access}, segment)) {
      if (!traits_.fetches()) return IBV_WC_LOC_PROT_ERR;
      loses_answer_ = true;  // the request is still sent; the error shows when the answer comes
    }
    local_.add(segment);
  }
  const bool datagram = sender_.record().type == IBV_QPT_UD;
  const std::uint64_t longest = datagram ? kMaxMtuBytes : kMaxMessageBytes;
  if (local_.bytes() > longest ||
      (traits_.is_atomic() && local_.bytes() != sizeof(std::uint64_t))) {
    return IBV_WC_LOC_LEN_ERR;
  }
  return loses_answer_ ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS;
}

bool Attempt::reachable() const {
  const Connection& connection = sender_.connection;
  return responder_.qpn.load() == responder_qpn_ && receives(responder_) && linked() &&
         responder_.dest_qpn.load() == sender_.record().qpn.load() &&
         responder_.path_mtu == connection.path_mtu &&
         is_at(process_.shared(), responder_, connection.to);
}

bool Attempt::linked() const {
  const SharedState& shared = process_.shared();
  const QpRecord& requester = sender_.record();
  // Only an Ethernet port has no LID.
  const bool same_kind = (requester.lid == 0) == (responder_.lid == 0);
  return same_kind && link_is_up(shared, requester.port) && link_is_up(shared, responder_.port);
}

Outcome Attempt::run(const ReceiveSource& source) {
  note_arrival(process_, responder_);
  const Outcome not_ready{Wait::receiver_not_ready, IBV_WC_SUCCESS, 0,
                          rnr_timer_ns(responder_.min_rnr_timer)};
  const auto outcome_without_receive = [&](Taking taking) {
    return taking == Taking::none ? not_ready : Outcome{Wait::unreachable};
  };
  ReceiveEntry receive;
  if (traits_.sends_payload) {
    const Taking taking = take_receive(process_, source, receive);
    return taking == Taking::taken ? send(source, receive, {}) : outcome_without_receive(taking);
  }
  // A WRITE with immediate moves its bytes only if a receive is posted. It takes the receive
  // afterwards, because the access may fail.
  if (traits_.consumes_receive) {
    if (const Taking seen = look_for_receive(process_, source); seen != Taking::taken)
      return outcome_without_receive(seen);
  }
  const Outcome outcome = access_remote(source);
  if (!traits_.consumes_receive || outcome.wait != Wait::none || outcome.status != IBV_WC_SUCCESS)
    return outcome;
  // Another QP may have taken the SRQ's last receive meanwhile. The request then waits, and is
  // executed again as a whole.
  const Taking taking = take_receive(process_, source, receive);
  if (taking != Taking::taken) return outcome_without_receive(taking);
  const bool reported =
      report(source, receive, IBV_WC_SUCCESS, IBV_WC_RECV_RDMA_WITH_IMM, local_.bytes());
  return reported ? outcome : Outcome{Wait::unreachable};
}

Outcome Attempt::send(const ReceiveSource& source, const ReceiveEntry& receive,
                      const SegmentList& header) {
  const std::span<const ibv_sge> elements{receive.sge, receive.num_sge};
  const std::uint64_t bytes = header.bytes() + local_.bytes();
  if (bytes_of(elements) < bytes) return refuse_length(source, receive);
  SegmentList target;
  for (const ibv_sge& element : elements) {
    // Elements that the message does not reach are not checked.
    if (element.length == 0 || target.bytes() >= bytes) continue;
    if (plans_revocation()) [[unlikely]]
      revoke_region(process_, source.party, element.lkey);
    Segment segment{};
    if (!resolve(process_, sender_.cache, source.party,
                 {element.lkey, element.addr, element.length, IBV_ACCESS_LOCAL_WRITE}, segment)) {
      return fail_receive(source, receive, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR);
    }
    target.add(segment);
  }
  SegmentList message;
  if (header.bytes() != 0) {
    message = header;
    for (const Segment& segment : local_.view()) message.add(segment);
  }
  if (responder_.scatters != 0 && claim_record(responder_, bytes, elements))
    target = scattered_message();
  // ESRCH: a process that has some of the memory is gone.
  if (const int error = move(target, header.bytes() != 0 ? message : local_); error == ESRCH)
    return {Wait::unreachable};
  else if (error != 0)
    return fail_receive(source, receive, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR);
  if (traits_.invalidates && !invalidate_window(process_, party_of_keys(source), responder_qpn_,
                                                request_.invalidate_key)) {
    // The requester still gets a success, because the message is acknowledged before the key is
    // looked at (IBTA vol. 1, error class J).
    return fail_receive(source, receive, IBV_WC_REM_INV_REQ_ERR, IBV_WC_SUCCESS);
  }
  if (!report(source, receive, IBV_WC_SUCCESS, IBV_WC_RECV, bytes)) return {Wait::unreachable};
  return Outcome::done(IBV_WC_SUCCESS, local_.bytes());
}

/// Executes an RDMA operation or an atomic.
Outcome Attempt::access_remote(const ReceiveSource& source) {
  const bool atomic = traits_.is_atomic();
  if ((traits_.remote_access & ~responder_.access) != 0 ||
      (traits_.fetches() && responder_.max_dest_rd_atomic == 0)) {
    return fail_responder(IBV_EVENT_QP_REQ_ERR, IBV_WC_REM_INV_REQ_ERR);
  }
  if (atomic && request_.remote_address % sizeof(std::uint64_t) != 0) {
    return fail_responder(IBV_EVENT_QP_REQ_ERR, IBV_WC_REM_INV_REQ_ERR);
  }
  if (local_.bytes() == 0) return Outcome::done(IBV_WC_SUCCESS);  // without bytes no key is needed
  if (plans_revocation()) [[unlikely]]
    revoke_region(process_, party_of_keys(source), request_.rkey);
  Segment segment{};
  if (!resolve(process_, sender_.cache, party_of_keys(source),
               {request_.rkey, request_.remote_address, local_.bytes(), traits_.remote_access,
                responder_qpn_},
               segment)) {
    return refuse_access(source);
  }
  int error = 0;
  if (traits_.fetches()) {
    error = fetch(segment, atomic);
  } else {
    SegmentList remote;
    remote.add(segment);
    error = move(remote, local_);
  }
  // ESRCH: the responder's process is gone. EBUSY: a stopped process holds the lock of atomics.
  if (error == ESRCH || error == EBUSY) return {Wait::unreachable};
  if (error != 0) return fail_responder(IBV_EVENT_QP_ACCESS_ERR, IBV_WC_REM_OP_ERR);
  if (loses_answer_) [[unlikely]]
    return Outcome::done(IBV_WC_LOC_PROT_ERR);
  Outcome outcome = Outcome::done(IBV_WC_SUCCESS, local_.bytes());
  outcome.scattered = std::exchange(scattered_, 0);
  return outcome;
}

/// Claims the record of an answer that stays in its completion, as with mlx5. Returns false if the
/// answer goes elsewhere. The answer of a request that takes time is first fetched to a buffer, by
/// an inlined copy of the request; store_answer() then claims the record for the request itself.
bool Attempt::claim_record_for_answer() {
  const QpRecord& requester = sender_.record();
  return requester.scatters != 0 && requester.type == IBV_QPT_RC && !request_.inlined() &&
         sender_.limits().signal_all && claim_record(requester, local_.bytes(), request_.elements);
}

Outcome Attempt::store_answer(const SegmentList& answer) {
  const SegmentList in_completion = claim_record_for_answer() ? scattered_message() : SegmentList();
  if (land(scattered_ != 0 ? in_completion : local_, answer) != 0)
    return Outcome::done(IBV_WC_LOC_PROT_ERR);
  Outcome outcome = Outcome::done(IBV_WC_SUCCESS, local_.bytes());
  outcome.scattered = std::exchange(scattered_, 0);
  return outcome;
}

/// Fetches the answer of a READ or an atomic. If it may not be written to the requester's elements,
/// a READ does nothing, while an atomic still changes the word.
int Attempt::fetch(const Segment& from, bool atomic) {
  if (loses_answer_) [[unlikely]]
    return atomic ? change_word(from) : 0;
  const SegmentList in_completion = claim_record_for_answer() ? scattered_message() : SegmentList();
  const SegmentList& to = scattered_ != 0 ? in_completion : local_;
  SegmentList remote;
  remote.add(from);
  if (!atomic) return move(to, remote);
  if (remote.posted() || to.posted()) {
    cross_pcie(remote, remote, remote.bytes());  // an atomic reads the word and writes it
    post_writes(process_, sender_.cache, to, to.bytes());
  }
  return remote_atomic(process_, request_, from, to);
}

/// Executes an atomic whose answer is dropped.
int Attempt::change_word(const Segment& word) {
  std::uint64_t old = 0;
  SegmentList answer;
  answer.add(plain_segment(reinterpret_cast<std::uint64_t>(&old), sizeof old));
  SegmentList remote;
  remote.add(word);
  if (remote.posted()) cross_pcie(remote, remote, remote.bytes());  // reads the word and writes it
  return remote_atomic(process_, request_, word, answer);
}

bool Attempt::claim_record(const QpRecord& qp, std::uint64_t bytes,
                           std::span<const ibv_sge> elements) {
  if (bytes == 0 || bytes > kScatteredBytes) return false;
  scattered_ = claim_scattered(process_, {qp.owner.load(), qp.qpn.load()}, bytes, elements);
  return scattered_ != 0;
}

SegmentList Attempt::scattered_message() const {
  const ScatteredRecord& record = process_.shared().scattered[scattered_];
  SegmentList list;
  list.add(plain_segment(reinterpret_cast<std::uint64_t>(record.message), record.bytes));
  return list;
}

/// Models the order of PCIe: a read of the card pushes out earlier writes, and new writes are
/// posted.
void Attempt::cross_pcie(const SegmentList& to, const SegmentList& from, std::uint64_t bytes) {
  push_posted(process_, sender_.cache, from);
  post_writes(process_, sender_.cache, to, bytes);
}

std::uint64_t Attempt::write_order_seed() const {
  const QpRecord& qp = sender_.record();
  constexpr std::uint64_t kMost = ~std::uint64_t{0} - 1;  // by_chance() adds 1 to its bound
  return by_chance(process_.shared().ports[qp.port].behaviour, qp, request_.index,
                   Chance::write_order, kMost);
}

int Attempt::land(const SegmentList& to, const SegmentList& from) {
  if (to.posted() || from.posted()) cross_pcie(to, from, std::min(to.bytes(), from.bytes()));
  return to.relaxed() ? move_bytes_in_any_order(to, from, write_order_seed())
                      : move_bytes(to, from, &sender_.recent_targets);
}

int Attempt::move(const SegmentList& to, const SegmentList& from) {
  if (const int error = land(to, from); error != 0) return error;
  const std::uint64_t length = std::min(to.bytes(), from.bytes());
  if (request_.faults != nullptr && request_.faults->flip && length != 0) [[unlikely]] {
    if (const int error = flip_bit(to, request_.faults->flip_byte % length); error != 0)
      return error;
  }
  fault_step("moved");
  return 0;
}

bool Attempt::report(const ReceiveSource& source, const ReceiveEntry& receive, ibv_wc_status status,
                     ibv_wc_opcode opcode, std::uint64_t bytes) {
  Cqe entry{};
  entry.wr_id = receive.wr_id;
  entry.status = static_cast<std::uint32_t>(status);
  entry.opcode = static_cast<std::uint32_t>(opcode);
  entry.byte_len = static_cast<std::uint32_t>(bytes);
  entry.qpn = responder_qpn_;
  entry.source_qpn = sender_.record().qpn.load();
  if (responder_.type == IBV_QPT_UD) {
    if (request_.address.to.global) entry.flags |= IBV_WC_GRH;
    entry.source_lid = static_cast<std::uint16_t>(sender_.record().lid);
    entry.extra = Cqe::kIsServiceLevel | service_level_of(request_.address);
  }
  if (traits_.has_immediate) {
    entry.immediate = request_.immediate;
    entry.flags |= IBV_WC_WITH_IMM;
  }
  if (traits_.invalidates && status == IBV_WC_SUCCESS) {
    entry.immediate = request_.invalidate_key;  // one field of ibv_wc has both meanings
    entry.flags |= IBV_WC_WITH_INV;
  }
  // The acknowledgement precedes everything that the responder sends back. So the requester's
  // completion must be written before the responder can learn of the message. Within one queue the
  // receive comes first, as on the wire.
  const bool acknowledged = status == IBV_WC_SUCCESS && responder_.type != IBV_QPT_UD;
  ReceiveCompletion completion(process_, source);
  if (!completion.may_be_had()) return false;  // a stopped process holds a lock
  if (status == IBV_WC_SUCCESS && scattered_ != 0)
    entry.extra = static_cast<std::uint16_t>(std::exchange(scattered_, 0));
  bool fits = true;
  if (acknowledged && source.cq != sender_.record().send_cq)
    fits = sender_.complete_now(request_, local_.bytes());
  completion.finish(entry, (request_.flags & IBV_SEND_SOLICITED) != 0);
  if (!fits) overrun(process_, sender_.record().send_cq);
  return true;
}

Outcome Attempt::fail_receive(const ReceiveSource& source, const ReceiveEntry& receive,
                              ibv_wc_status there, ibv_wc_status here) {
  if (!report(source, receive, there, IBV_WC_RECV, 0)) return {Wait::unreachable};
  enter_error(process_, responder_, responder_qpn_, std::nullopt);
  return Outcome::done(here);
}

/// Handles a message that is longer than its receive. An unreliable responder drops it and goes on
/// (IBTA vol. 1, 9.9.3). A receive of its own queue takes the next message (error class D). A
/// receive of an SRQ was taken already, so it completes with the error (class E).
Outcome Attempt::refuse_length(const ReceiveSource& source, const ReceiveEntry& receive) {
  if (responder_.type != IBV_QPT_UC && responder_.type != IBV_QPT_UD)
    return fail_receive(source, receive, IBV_WC_LOC_LEN_ERR, IBV_WC_REM_INV_REQ_ERR);
  if (source.srq == 0) {
    count(process_, responder_.port, PortCounter::resp_local_length_error);
  } else if (!report(source, receive, IBV_WC_LOC_LEN_ERR, IBV_WC_RECV, 0)) {
    return {Wait::unreachable};
  }
  return Outcome::done(IBV_WC_REM_INV_REQ_ERR);
}

/// Handles a key that does not exist or does not allow the access. A WRITE with immediate reports
/// the error in its receive (IBTA vol. 1, 11.6.2, Local Access Error). Requests without a receive
/// raise an event.
Outcome Attempt::refuse_access(const ReceiveSource& source) {
  if (traits_.consumes_receive && responder_.type != IBV_QPT_UC) {
    ReceiveEntry receive;
    if (take_receive(process_, source, receive) == Taking::taken)
      return fail_receive(source, receive, IBV_WC_LOC_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR);
  }
  return fail_responder(IBV_EVENT_QP_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR);
}

/// Only the responder of an acknowledged transport stops when it refuses a request. Others drop the
/// request (IBTA vol. 1, 9.9.3, error classes C and D).
Outcome Attempt::fail_responder(ibv_event_type event, ibv_wc_status here) {
  // A READ that is repeated was judged when it was executed first.
  if (responder_.type != IBV_QPT_UC && !request_.repeats)
    enter_error(process_, responder_, responder_qpn_, event);
  return Outcome::done(here);
}

void Attempt::count_packets() {
  const std::uint64_t mtu = sender_.connection.path_mtu_bytes;
  const std::uint64_t packets = std::max<std::uint64_t>(1, (local_.bytes() + mtu - 1) / mtu);
  const auto next = static_cast<std::uint32_t>((sender_.connection.next_psn + packets) & 0xffffffU);
  sender_.connection.next_psn = next;
  responder_.expected_psn = next;
}

}  // namespace hbmwire::emulation::nic

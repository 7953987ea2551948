// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>

#include "emulation/nic/memory/mover.hpp"
#include "emulation/nic/queue/receive.hpp"
#include "emulation/nic/queue/sender.hpp"
#include "emulation/nic/transport/request.hpp"

namespace hbmwire::emulation::nic {

/// An attempt to execute one request on both sides. The requester also does the responder's work
/// (checks, receive queue, bytes, completion), with the responder's lock held. The `status` of an
/// outcome is the one that an acknowledged transport tells its requester; each transport decides
/// what it does about an error.
class Attempt {
 public:
  Attempt(Process& process, Sender& sender, const Request& request, QpRecord& responder,
          std::uint32_t responder_qpn)
      : process_(process),
        sender_(sender),
        request_(request),
        traits_(*traits_of(request.opcode)),
        responder_(responder),
        responder_qpn_(responder_qpn) {}

  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;
  Attempt(Attempt&&) = delete;
  Attempt& operator=(Attempt&&) = delete;
  ~Attempt();

  /// Checks the requester's own elements. Returns LOC_PROT_ERR if one is not allowed.
  ibv_wc_status gather();

  /// Whether gather() has found that the answer of a READ or an atomic may not be written to the
  /// elements. The request is still sent: a NIC finds the error when the answer comes.
  [[nodiscard]] bool loses_answer() const { return loses_answer_; }

  /// Whether the responder accepts packets from the requester's connection. The responder's lock is
  /// held.
  [[nodiscard]] bool reachable() const;

  /// Whether both ports are of the same kind and their links are up.
  [[nodiscard]] bool linked() const;

  /// Executes a SEND, an RDMA operation or an atomic. The responder's lock is held.
  Outcome run(const ReceiveSource& source);

  /// Advances the packet sequence numbers of both ends. If one end is reset, the numbers differ and
  /// the connection stops working, as it should.
  void count_packets();

  /// Copies `header` (of a datagram; else empty) and the payload to a receive.
  Outcome send(const ReceiveSource& source, const ReceiveEntry& receive, const SegmentList& header);

  /// Refuses the request as the responder: raises `event` and moves the responder to ERR, if its
  /// transport does that.
  Outcome fail_responder(ibv_event_type event, ibv_wc_status here);

  [[nodiscard]] std::uint64_t bytes() const { return local_.bytes(); }

  [[nodiscard]] const SegmentList& local() const { return local_; }

  /// Stores the responder's answer to the requester's elements, or to the completion.
  Outcome store_answer(const SegmentList& answer);

  [[nodiscard]] const OpcodeTraits& traits() const { return traits_; }

 private:
  Outcome access_remote(const ReceiveSource& source);

  /// Whether the fault plan revokes the region that the request uses at the responder.
  [[nodiscard]] bool plans_revocation() const {
    return request_.faults != nullptr && request_.faults->revoke && !request_.repeats;
  }

  /// Claims the record in which a small message stays until `qp`'s completion is polled. Returns
  /// false if the message goes to memory instead.
  bool claim_record(const QpRecord& qp, std::uint64_t bytes, std::span<const ibv_sge> elements);
  bool claim_record_for_answer();
  /// The message's bytes in the claimed record.
  [[nodiscard]] SegmentList scattered_message() const;
  int fetch(const Segment& from, bool atomic);
  int change_word(const Segment& word);
  void cross_pcie(const SegmentList& to, const SegmentList& from, std::uint64_t bytes);
  [[nodiscard]] std::uint64_t write_order_seed() const;
  /// Copies bytes as a NIC's writes land. Returns 0 or an errno, as move_bytes() does.
  int land(const SegmentList& to, const SegmentList& from);
  /// As land(), with the fault that the plan has for the bytes.
  int move(const SegmentList& to, const SegmentList& from);
  /// Completes both sides. Returns false, with nothing completed, if a stopped process holds a lock
  /// of the receive queue.
  bool report(const ReceiveSource& source, const ReceiveEntry& receive, ibv_wc_status status,
              ibv_wc_opcode opcode, std::uint64_t bytes);
  /// Completes the receive with the error `there`, and moves the responder to ERR. The outcome has
  /// the requester's status `here`.
  Outcome fail_receive(const ReceiveSource& source, const ReceiveEntry& receive,
                       ibv_wc_status there, ibv_wc_status here);
  Outcome refuse_length(const ReceiveSource& source, const ReceiveEntry& receive);
  Outcome refuse_access(const ReceiveSource& source);

  Process& process_;
  Sender& sender_;
  const Request& request_;
  const OpcodeTraits& traits_;
  QpRecord& responder_;
  std::uint32_t responder_qpn_;
  SegmentList local_;
  std::uint32_t scattered_ = 0;  // index of the ScatteredRecord for the completion; 0: none
  bool loses_answer_ = false;
};

}  // namespace hbmwire::emulation::nic

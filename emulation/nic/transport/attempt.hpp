// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>

#include "emulation/nic/memory/mover.hpp"
#include "emulation/nic/queue/receive.hpp"
#include "emulation/nic/queue/sender.hpp"
#include "emulation/nic/transport/request.hpp"

namespace hbmwire::emulation::nic {

/// One request with what it touches on both sides. The requester does the responder's work too,
/// with the responder's lock held: checks, receive queue, bytes, completion. What each transport
/// makes of an error is its own matter: `status` of the outcome is what an acknowledged one tells
/// its requester.
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

  /// The requester's own elements. LOC_PROT_ERR when one is not allowed.
  ibv_wc_status gather();

  /// Whether gather() found that what a READ or an atomic brings may not be written here. The
  /// request is sent all the same: the error is found when the answer comes.
  [[nodiscard]] bool loses_answer() const { return loses_answer_; }

  /// With the responder's lock held: whether packets that the requester's connection sends would
  /// be taken.
  [[nodiscard]] bool reachable() const;

  /// Whether both ends are on one kind of link, and theirs are up.
  [[nodiscard]] bool linked() const;

  /// SEND, RDMA or atomic, with the responder's lock held.
  Outcome run(const ReceiveSource& source);

  /// Both ends count packet sequence numbers, so that a connection of which one end was reset does
  /// not go on.
  void count_packets();

  /// Puts `head` (a datagram's header, or nothing) and the payload into a receive.
  Outcome send(const ReceiveSource& source, const ReceiveEntry& receive, const SegmentList& head);

  /// The responder refuses the request.
  Outcome fail_responder(ibv_event_type event, ibv_wc_status here);

  [[nodiscard]] std::uint64_t bytes() const { return local_.bytes(); }

  [[nodiscard]] const SegmentList& local() const { return local_; }

  /// What the responder answered lands in the requester's elements, or in the completion to come.
  Outcome bring(const SegmentList& answer);

  [[nodiscard]] const OpcodeTraits& traits() const { return traits_; }

 private:
  Outcome access_remote(const ReceiveSource& source);

  [[nodiscard]] bool revokes() const {
    return request_.faults != nullptr && request_.faults->revoke && !request_.repeats;
  }

  bool stays_in_completion(const QpRecord& qp, std::uint64_t bytes,
                           std::span<const ibv_sge> elements);
  bool answer_stays_in_completion();
  [[nodiscard]] SegmentList scattered_message() const;
  int fetch(const Segment& from, bool atomic);
  int change_word(const Segment& word);
  void cross_pcie(const SegmentList& to, const SegmentList& from, std::uint64_t bytes);
  [[nodiscard]] std::uint64_t scatter_seed() const;
  int land(const SegmentList& to, const SegmentList& from);
  int move(const SegmentList& to, const SegmentList& from);
  /// False: a process was stopped with the receive queue's lock, and nothing is completed yet.
  bool report(const ReceiveSource& source, const ReceiveEntry& receive, ibv_wc_status status,
              ibv_wc_opcode opcode, std::uint64_t bytes);
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
  std::uint32_t scattered_ = 0;  // the message's place in the completion to come
  bool loses_answer_ = false;
};

}  // namespace hbmwire::emulation::nic

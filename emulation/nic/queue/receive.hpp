// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>

#include "emulation/nic/memory/region.hpp"
#include "emulation/nic/state/process.hpp"

namespace hbmwire::emulation::nic {

/// Where the receive of a message comes from, and where it completes.
struct ReceiveSource {
  QpRecord& qp;       // that the message came in on
  std::uint32_t srq;  // 0: the QP's own queue
  std::uint32_t cq;
  Party party;                   // whose memory the receive's elements name
  std::uint32_t srq_number = 0;  // XRC: the SRQ may go while the QP lives
};

/// QpRecord::queue. Who inherits it sees to it that the receive which the dead one was about to
/// consume is consumed.
class [[nodiscard]] QueueHold : public Hold {
 public:
  QueueHold(Process& process, QpRecord& qp) : Hold(qp.queue) {
    if (inherited()) look_back(process, qp);
  }

  QueueHold(Process& process, QpRecord& qp, WithoutWaiting no) : Hold(qp.queue, no) {
    if (inherited()) look_back(process, qp);
  }

 private:
  static void look_back(Process& process, const QpRecord& qp);
};

/// The QP's own queue, or the SRQ that it was created with.
ReceiveSource receives_of(SharedState& shared, QpRecord& qp);

/// Posts one receive; 0 or an errno. In ERR it completes at once, flushed.
int post_receive(Process& process, QpRecord& qp, const ibv_recv_wr& request);

/// A message is going to be received: has what its owner wrote last fetched.
void prefetch_receive(Process& process, const QpRecord& qp);

/// `none`: whoever posts the next one wakes the senders. `held`: a process was stopped with the
/// lock of the queue.
enum class Taking : std::uint8_t { taken, none, held };

/// Whether a receive is posted.
Taking look_for_receive(Process& process, const ReceiveSource& source);

/// Copies the oldest receive out: of a QP's own queue without consuming it; one of an SRQ is the
/// QP's from now on, since other QPs take from it too. With QpRecord::responder held.
Taking take_receive(Process& process, const ReceiveSource& source, ReceiveEntry& entry);

/// The end of the receive that take_receive gave. It has the lock that guards the queue, and with
/// it may nothing be taken but that of a CQ.
class ReceiveCompletion {
 public:
  ReceiveCompletion(Process& process, const ReceiveSource& source);

  /// False: a process was stopped with the lock, or with that of the CQ, and nothing happens.
  [[nodiscard]] bool may_be_had() const;

  /// Completes the receive, and gives the lock back.
  void finish(const Cqe& entry, bool solicited);

 private:
  Process& process_;
  const ReceiveSource& source_;
  std::optional<Hold> hold_;
};

/// Raises IBV_EVENT_COMM_EST when the first message comes in before the QP was moved to RTS.
void note_arrival(Process& process, QpRecord& qp);

/// Moves a QP that still has number `qpn` to ERR: flushes its receives, wakes its owner's parked
/// requests, and raises `event` with it. Does nothing to one in RESET; to one in ERR only what is
/// left of that, when the process that began it was killed. Takes QpRecord::queue only; when a
/// process was stopped with it the state changes and the rest is owed.
void enter_error(Process& process, QpRecord& qp, std::uint32_t qpn,
                 std::optional<ibv_event_type> event);

/// Wakes the peer whose request waits for something of this QP.
void wake_sender(Process& process, QpRecord& qp);

}  // namespace hbmwire::emulation::nic

// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>

#include "emulation/nic/memory/region.hpp"
#include "emulation/nic/state/process.hpp"

namespace hbmwire::emulation::nic {

/// The queue that the receive for a message comes from, and the CQ for its completion.
struct ReceiveSource {
  QpRecord& qp;       // the QP that the message came in on
  std::uint32_t srq;  // index; 0: the QP's own queue
  std::uint32_t cq;
  Party party;                   // the owner of the memory that the receive's elements name
  std::uint32_t srq_number = 0;  // XRC: an SRQ may be destroyed before the QP
};

/// Holds QpRecord::queue. If the last holder died while it was consuming a receive, the receive is
/// consumed first.
class [[nodiscard]] QueueHold : public Hold {
 public:
  QueueHold(Process& process, QpRecord& qp) : Hold(qp.queue) {
    if (inherited()) finish_consumption(process, qp);
  }

  QueueHold(Process& process, QpRecord& qp, WithoutWaiting no) : Hold(qp.queue, no) {
    if (inherited()) finish_consumption(process, qp);
  }

 private:
  static void finish_consumption(Process& process, const QpRecord& qp);
};

/// The receive queue of a QP: its own, or the SRQ that it was created with.
ReceiveSource receives_of(SharedState& shared, QpRecord& qp);

/// Posts a receive. In ERR the receive is flushed at once. Returns 0 or an errno.
int post_receive(Process& process, QpRecord& qp, const ibv_recv_wr& request);

/// Prefetches what the owner wrote last, because a message is about to be received.
void prefetch_receive(Process& process, const QpRecord& qp);

/// `none`: no receive is posted; the next one that is posted wakes the senders. `held`: a stopped
/// process holds the lock of the queue.
enum class Taking : std::uint8_t { taken, none, held };

/// Whether a receive is posted. Returns `taken` if there is one.
Taking look_for_receive(Process& process, const ReceiveSource& source);

/// Copies the oldest receive to `entry`. A receive of the QP's own queue is not consumed yet. A
/// receive of an SRQ belongs to the QP from now on, because other QPs take from the SRQ too.
/// QpRecord::responder is held.
Taking take_receive(Process& process, const ReceiveSource& source, ReceiveEntry& entry);

/// Completes the receive that take_receive() returned. Holds the lock that guards the queue, if the
/// receive is still in a queue; only locks of CQs may be taken meanwhile.
class ReceiveCompletion {
 public:
  ReceiveCompletion(Process& process, const ReceiveSource& source);

  /// Returns false if a stopped process holds that lock or the CQ's. Nothing happens then.
  [[nodiscard]] bool may_be_had() const;

  /// Completes the receive and releases the lock.
  void finish(const Cqe& entry, bool solicited);

 private:
  Process& process_;
  const ReceiveSource& source_;
  std::optional<Hold> hold_;
};

/// Raises IBV_EVENT_COMM_EST if this is the first message and the QP is not in RTS yet.
void note_arrival(Process& process, QpRecord& qp);

/// Moves a QP to ERR if it still has number `qpn`: flushes its receives, wakes its owner's parked
/// requests and raises `event`. Does nothing to a QP in RESET. For a QP in ERR it only finishes a
/// move whose process was killed. Takes only QpRecord::queue; if a stopped process holds that, the
/// state changes and the rest is put off.
void enter_error(Process& process, QpRecord& qp, std::uint32_t qpn,
                 std::optional<ibv_event_type> event);

/// Wakes the peer if a request of it waits for this QP.
void wake_sender(Process& process, QpRecord& qp);

}  // namespace hbmwire::emulation::nic

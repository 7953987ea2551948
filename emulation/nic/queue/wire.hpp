// SPDX-License-Identifier: MIT
#pragma once

#include <deque>
#include <memory>

#include "emulation/nic/queue/flight.hpp"
#include "emulation/nic/queue/sender.hpp"

namespace hbmwire::emulation::nic {

/// Messages in the network whose requester does not track them any more: it has completed them or
/// given them up, may be in another state by now, or may be gone. They arrive one after the other.
/// A message that the responder cannot take is dropped at once.
class Wire final : public Parkable, public std::enable_shared_from_this<Wire> {
 public:
  /// Uses the connection that `origin` has now. The mutex of `origin` is held.
  Wire(Process& process, const Sender& origin);

  /// Takes over a message whose payload is in its data.
  void carry(Flight message);

  void progress_locked() override;
  [[nodiscard]] std::uint64_t due_locked() const override;

  /// Delivers the messages that are still in flight when the process ends.
  void end_locked() override;

 private:
  void deliver(const Flight& message);

  Process& process_;
  QpRecord record_{};  // the copy of the requester's record that responders see
  Sender sender_;
  std::deque<Flight> messages_;
  std::deque<OperationFaults> faults_;  // the faults of each message
  std::uint64_t last_ns_ = 0;           // when the newest message arrives
};

}  // namespace hbmwire::emulation::nic

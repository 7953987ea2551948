// SPDX-License-Identifier: MIT
#pragma once

#include <deque>
#include <memory>

#include "emulation/nic/queue/flight.hpp"
#include "emulation/nic/queue/sender.hpp"

namespace hbmwire::emulation::nic {

/// Messages in the network of which their requester hears no more: it has completed them, or given
/// them up, and may have another state by now, or be gone. They arrive one after the other, and
/// nobody waits for what can't be taken.
class Wire final : public Parkable, public std::enable_shared_from_this<Wire> {
 public:
  /// With the connection that `origin` has now. Its mutex is held.
  Wire(Process& process, const Sender& origin);

  /// Takes a message over, whose payload is in its data.
  void carry(Flight message);

  void progress_locked() override;
  [[nodiscard]] std::uint64_t due_locked() const override;

  /// What was sent arrives, though the sender ends.
  void end_locked() override;

 private:
  void deliver(const Flight& message);

  Process& process_;
  QpRecord record_{};  // what the other side looks at
  Sender sender_;
  std::deque<Flight> messages_;
  std::deque<OperationFaults> faults_;  // of each of them
  std::uint64_t last_ns_ = 0;
};

}  // namespace hbmwire::emulation::nic

// SPDX-License-Identifier: MIT
#include "emulation/nic/queue/wire.hpp"

#include <algorithm>
#include <mutex>

namespace hbmwire::emulation::nic {

Wire::Wire(Process& process, const Sender& origin)
    : process_(process), sender_(process, record_, origin.transport(), {}) {
  const QpRecord& qp = origin.record();
  record_.qpn.store(qp.qpn.load());
  record_.owner.store(qp.owner.load());
  record_.type = qp.type;
  record_.pd = qp.pd;
  record_.send_cq = qp.send_cq;
  record_.qkey = qp.qkey;
  record_.port = qp.port;
  record_.lid = qp.lid;
  sender_.connection = origin.connection;
  sender_.completes_later();
}

void Wire::carry(Flight message) {
  const std::lock_guard guard(mutex);
  message.arrives_ns = last_ns_ = std::max(last_ns_, message.arrives_ns);
  faults_.push_back(message.request.faults != nullptr ? *message.request.faults
                                                      : OperationFaults{});
  const bool was_empty = messages_.empty();
  Flight& kept = messages_.emplace_back(std::move(message));
  kept.request.elements = kept.elements;
  if (kept.request.faults != nullptr) kept.request.faults = &faults_.back();
  if (was_empty) process_.add_parked(shared_from_this());
  progress_locked();
}

void Wire::deliver(const Flight& message) {
  sender_.run(message.request);
  sender_.drain_locked();  // counts the traffic now, because no collector knows of this sender
}

void Wire::progress_locked() {
  const bool had_any = !messages_.empty();
  while (!messages_.empty() && messages_.front().arrives_ns <= now_ns()) {
    deliver(messages_.front());
    messages_.pop_front();
    faults_.pop_front();
  }
  if (!messages_.empty()) {
    process_.wake_by(messages_.front().arrives_ns);
  } else if (had_any) {
    process_.remove_parked(this);
  }
}

std::uint64_t Wire::due_locked() const {
  return messages_.empty() ? 0 : messages_.front().arrives_ns;
}

void Wire::end_locked() {
  for (const Flight& message : messages_) deliver(message);
  messages_.clear();
  faults_.clear();
}

}  // namespace hbmwire::emulation::nic

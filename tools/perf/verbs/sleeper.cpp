// SPDX-License-Identifier: MIT
#include "tools/perf/verbs/sleeper.hpp"

#include <poll.h>

#include <array>
#include <cerrno>
#include <cstdlib>

namespace hbmwire::tools::perf {

Sleeper::~Sleeper() {
  // Without this, ibv_destroy_cq() would wait forever for unacknowledged events.
  if (send_events_ != 0) ibv_ack_cq_events(lanes_->send_cq.get(), send_events_);
  if (receive_events_ != 0) ibv_ack_cq_events(lanes_->receive_cq.get(), receive_events_);
}

Outcome<bool> Sleeper::arm() {
  if (armed_) return true;
  for (ibv_cq* const cq : {lanes_->send_cq.get(), lanes_->receive_cq.get()}) {
    if (const int result = ibv_req_notify_cq(cq, 0); result != 0)
      return tl::make_unexpected(
          system_error(Stage::complete, "ibv_req_notify_cq", std::abs(result), lanes_->nic));
  }
  armed_ = true;
  return false;
}

Outcome<void> Sleeper::sleep() {
  constexpr int kMomentMs = 20;  // afterwards the caller checks the peer
  std::array<pollfd, 2> fds{pollfd{lanes_->channel->fd, POLLIN, 0}, pollfd{control_fd_, POLLIN, 0}};
  const int ready = ::poll(fds.data(), fds.size(), kMomentMs);
  if (ready < 0 && errno != EINTR)
    return tl::make_unexpected(system_error(Stage::complete, "poll", errno, lanes_->nic));
  if (ready > 0 && fds[0].revents != 0) return take_event();
  return {};
}

Outcome<void> Sleeper::take_event() {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(lanes_->channel.get(), &cq, &context) != 0) {
    return tl::make_unexpected(
        system_error(Stage::complete, "ibv_get_cq_event", errno != 0 ? errno : EIO, lanes_->nic));
  }
  // Acknowledging takes a mutex, so it is not done for each event (ibv_get_cq_event(3)).
  constexpr unsigned kAcknowledgeEvery = 64;
  unsigned& events = cq == lanes_->send_cq.get() ? send_events_ : receive_events_;
  if (++events == kAcknowledgeEvery) {
    ibv_ack_cq_events(cq, events);
    events = 0;
  }
  armed_ = false;
  return {};
}

}  // namespace hbmwire::tools::perf

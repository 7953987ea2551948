// SPDX-License-Identifier: MIT
#pragma once

#include "tools/perf/verbs/lanes.hpp"

namespace hbmwire::tools::perf {

/// For -e: sleeps until a completion arrives, the peer sends a message, or a moment has passed. See
/// ibv_req_notify_cq(3) and ibv_get_cq_event(3).
class Sleeper {
 public:
  Sleeper(Lanes& lanes, int control_fd) : lanes_(&lanes), control_fd_(control_fd) {}

  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  ~Sleeper();

  /// Requests an event for the next completion. Afterwards the queues must be polled once more
  /// before sleep(), because completions that arrived in between raise no event. Returns true if an
  /// event was already requested.
  Outcome<bool> arm();

  /// Returns after an event, a message of the peer, or a moment.
  Outcome<void> sleep();

 private:
  Outcome<void> take_event();

  Lanes* lanes_;
  int control_fd_;
  bool armed_ = false;
  unsigned send_events_ = 0;  // not acknowledged yet
  unsigned receive_events_ = 0;
};

}  // namespace hbmwire::tools::perf

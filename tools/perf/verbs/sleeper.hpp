// SPDX-License-Identifier: MIT
#pragma once

#include "tools/perf/verbs/lanes.hpp"

namespace hbmwire::tools::perf {

/// Sleeps until a completion queue has something, or the peer says something, or a moment is over:
/// for -e. ibv_req_notify_cq(3), ibv_get_cq_event(3).
class Sleeper {
 public:
  Sleeper(Lanes& lanes, int control_fd) : lanes_(&lanes), control_fd_(control_fd) {}

  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  ~Sleeper();

  /// Asks for an event with the next completion. Then the queues have to be polled once more before
  /// sleep(): what came in between raises none. True: it had been asked for already.
  Outcome<bool> arm();

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

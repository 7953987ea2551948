// SPDX-License-Identifier: MIT
#pragma once

#include <rdma/rdma_cma.h>

#include <cstdint>
#include <vector>

#include "emulation/tests/survival/storm_session.hpp"

namespace hbmwire::test {

/// The rdma_cm part of a worker: it listens, and connects to listeners again and again.
class Connector {
 public:
  /// Listens as worker `self`, and connects to itself and the others.
  Connector(Board& board, std::size_t self, Random& random);

  /// Takes an event or begins a connection, now and then.
  void step();
  /// Destroys every id and channel.
  void finish();

  /// Ends all connections, and waits until they are gone.
  void settle();

 private:
  /// Starts a connection to a random worker as `active_`.
  void begin();
  void end_active();
  /// Takes and acknowledges an event; false if there is none.
  bool next(rdma_event_channel* channel, rdma_cm_event& event);
  /// The listener's reaction to an event.
  void serve(const rdma_cm_event& event);
  /// The next step of `active_` after an event. Ends it after its last step or a failure.
  void go_on(const rdma_cm_event& event);
  void destroy(rdma_cm_id* id);

  Board& board_;
  std::size_t self_;
  Random& random_;
  rdma_event_channel* listening_ = nullptr;
  rdma_event_channel* connecting_ = nullptr;
  rdma_cm_id* listener_ = nullptr;
  rdma_cm_id* active_ = nullptr;  // the connection that this worker makes; null: none
  std::uint64_t since_ns_ = 0;    // the time of its last event
  std::vector<rdma_cm_id*> accepted_;
};

}  // namespace hbmwire::test

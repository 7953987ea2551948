// SPDX-License-Identifier: MIT
#pragma once

#include <rdma/rdma_cma.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tools/perf/verbs/lanes.hpp"

namespace hbmwire::tools::perf {

/// -R: the RDMA connection manager connects the queue pairs, one after the other. It uses the
/// existing queue pairs, on the device and the memory that the library opened: rdma_init_qp_attr(3)
/// returns the attributes of each state. The server sends its port over the control channel.
class CmConnector {
 public:
  explicit CmConnector(const Work& work) : work_(&work) {}

  /// For the server: listens on the NIC's own address from now on. Returns the port.
  Outcome<std::uint16_t> listen(const wire::PerfQueues& mine);

  /// To be called by both sides at the same time. The connections last as long as this object.
  Outcome<void> connect(Lanes& lanes, const wire::PerfQueues& peer);

 private:
  struct Destroy {
    void operator()(rdma_event_channel* channel) const noexcept {
      rdma_destroy_event_channel(channel);
    }

    void operator()(rdma_cm_id* id) const noexcept {
      // The call waits only for events that were not acknowledged, and there are none.
      static_cast<void>(rdma_destroy_id(id));
    }
  };

  using Id = std::unique_ptr<rdma_cm_id, Destroy>;

  struct Event {
    rdma_cm_id* id = nullptr;
    std::uint32_t lane = 0;  ///< for a request: the number in its private data
  };

  Outcome<void> open();  // the event channel, once
  /// Waits for the next event, which must be of this type.
  Outcome<Event> expect(rdma_cm_event_type type);
  /// Takes the next event, which must be of this type. Empty if it was a request of another
  /// program, which was refused.
  Outcome<std::optional<Event>> take(rdma_cm_event_type type);
  /// The client's, and the server's, part in the connection of one lane. A request names its lane.
  Outcome<void> ask(const Lanes& lanes, Lane& lane, const wire::PerfQueues& peer);
  Outcome<void> answer(const Lanes& lanes, std::vector<Lane>& all);
  /// Takes the route from `id`, and brings the queue pair to RTS.
  Outcome<void> wire_up(const Lanes& lanes, Lane& lane, rdma_cm_id* id);
  Outcome<void> check(int result, const char* call) const;

  const Work* work_;
  std::unique_ptr<rdma_event_channel, Destroy> channel_;
  Id listener_;
  std::vector<Id> ids_;
};

}  // namespace hbmwire::tools::perf

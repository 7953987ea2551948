// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/nic/rdma_cm/cm.hpp"

namespace hbmwire::emulation::nic {

/// The result of delivering a request (REQ or SIDR REQ).
enum class Delivery : std::uint8_t {
  delivered,
  no_listener,
  refused,  // the listener's id is for another type of queue pair
  lost      // a link is down or the backlog is full: no answer
};

/// Delivers the request of `id` to the listener at its destination.
Delivery deliver_request(Cm& cm, CmId& id);

}  // namespace hbmwire::emulation::nic

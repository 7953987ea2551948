// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/nic/rdma_cm/cm.hpp"

namespace hbmwire::emulation::nic {

/// What became of a request (REQ, or SIDR REQ) where it was sent to.
enum class Delivery : std::uint8_t {
  delivered,
  no_listener,
  refused,  // the listener's id is for queue pairs of another type
  lost      // a link is down or the backlog full: nothing was answered
};

/// Delivers the request of `id` to whoever listens at its destination.
Delivery deliver_request(Cm& cm, CmId& id);

}  // namespace hbmwire::emulation::nic

// SPDX-License-Identifier: MIT
#pragma once

#include "wire/invitation.hpp"

namespace hbmwire::detail {

/// How two ends find each other that were wired up by invitations, either one long before the
/// other. One of them, `first`, hails by the control lane; as long as the other one is not wired
/// up, its NIC drops that without a word, until the retries are used up and the queue pair is in
/// ERROR: then it is drained, reset and wired up again, with the same packet sequence numbers, for
/// nothing has arrived at either side. The other one says nothing before it is probed, so that its
/// queue pair never has to be reset: a packet of it that was received would be missing at the
/// other's new life. Hence not both may begin.
struct PeerProbe {
  wire::Hails hails;
  bool said = false;
  bool failed = false;  // the control lane is in ERROR
  bool heard = false;   // theirs, and it is the right one
};

}  // namespace hbmwire::detail

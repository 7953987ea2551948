// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <optional>

#include "emulation/nic/queue/receive.hpp"
#include "emulation/nic/transport/transport.hpp"

namespace hbmwire::emulation::nic {

/// Finds the receive queue for a request; the responder's lock is held. Returns nullopt if there is
/// no such queue: the responder refuses the request then.
using SourceOf = std::optional<ReceiveSource> (*)(SharedState& shared, QpRecord& responder,
                                                  const Request& request);

/// The common part of RC and XRC: a request waits for its responder, is executed once and is
/// counted.
Outcome execute_reliable(Process& process, Sender& sender, const Request& request,
                         ibv_qp_type responder_type, SourceOf source_of);

}  // namespace hbmwire::emulation::nic

// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <optional>

#include "emulation/nic/queue/receive.hpp"
#include "emulation/nic/transport/transport.hpp"

namespace hbmwire::emulation::nic {

/// Where a request's receive comes from, with the responder's lock held. Nothing: there is no such
/// queue, and the responder refuses the request.
using SourceOf = std::optional<ReceiveSource> (*)(SharedState& shared, QpRecord& responder,
                                                  const Request& request);

/// What RC and XRC have in common: a request waits for its responder, runs once, and is counted.
Outcome execute_reliable(Process& process, Sender& sender, const Request& request,
                         ibv_qp_type responder_type, SourceOf source_of);

}  // namespace hbmwire::emulation::nic

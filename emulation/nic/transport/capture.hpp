// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "emulation/nic/transport/request.hpp"

/// A request's own memory apart from its arrival. The caller is in an Activity, and holds the
/// sender's mutex.
namespace hbmwire::emulation::nic {

class Process;
class Sender;

/// Takes the payload out of the requester's elements, as it leaves.
ibv_wc_status capture(Process& process, Sender& sender, const Request& request,
                      std::vector<std::byte>& payload);

/// Puts what the responder answered into the requester's elements, or into its completion.
Outcome place(Process& process, Sender& sender, const Request& request,
              std::span<std::byte> answer);

/// Whether a WRITE of an RC QP would be taken now, into memory where writes land in any order.
bool lands_relaxed(Process& process, Sender& sender, const Request& request);

}  // namespace hbmwire::emulation::nic

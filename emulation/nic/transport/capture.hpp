// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "emulation/nic/transport/request.hpp"

/// Accesses a request's own memory at another time than its arrival. The caller is inside an
/// Activity and holds the sender's mutex.
namespace hbmwire::emulation::nic {

class Process;
class Sender;

/// Copies the payload from the requester's elements when the request leaves.
ibv_wc_status capture(Process& process, Sender& sender, const Request& request,
                      std::vector<std::byte>& payload);

/// Stores the responder's answer to the requester's elements, or to its completion.
Outcome store_answer(Process& process, Sender& sender, const Request& request,
                     std::span<std::byte> answer);

/// Whether a WRITE of an RC QP would be accepted now, and goes to memory where writes land in any
/// order.
bool lands_relaxed(Process& process, Sender& sender, const Request& request);

}  // namespace hbmwire::emulation::nic

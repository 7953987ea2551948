// SPDX-License-Identifier: MIT
#pragma once

#include "wire/control_messages.hpp"

namespace hbmwire::detail {

struct EndpointState;

/// Hands a message from the peer to the part of `endpoint` that handles it. May throw
/// std::bad_alloc.
void take_control_message(EndpointState& endpoint, const wire::ControlMessage& message);

}  // namespace hbmwire::detail

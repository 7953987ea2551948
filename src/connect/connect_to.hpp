// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string_view>

#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

/// Connects to a listener, and drives the worker meanwhile. `again`: this is a reconnect, which
/// begins with a pause if EndpointOptions::retry_connect is set. Errors: Stage::connect.
Result<std::shared_ptr<EndpointState>> connect_to(const std::shared_ptr<WorkerState>& worker,
                                                  std::string_view where, const Wait& wait,
                                                  const EndpointOptions& options,
                                                  bool again = false);

}  // namespace hbmwire::detail

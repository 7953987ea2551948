// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "hbmwire/endpoint.hpp"
#include "hbmwire/wire.hpp"

#include "endpoint/advertised.hpp"
#include "endpoint/worker_state.hpp"

namespace hbmwire::detail {

struct ListenerState {
  std::shared_ptr<WorkerState> worker;
  wire::ControlListener listener;
  EndpointOptions options;
  std::shared_ptr<AdvertisedRegions> advertised = std::make_shared<AdvertisedRegions>();
};

}  // namespace hbmwire::detail

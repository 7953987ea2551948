// SPDX-License-Identifier: MIT
#include "connect/cm_link.hpp"

#include <sys/epoll.h>

#include <utility>

#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

CmLink::CmLink(WorkerState& worker, EndpointState& endpoint, transport::CmId id) noexcept
    : worker_(worker), endpoint_(endpoint), id_(std::move(id)) {
  worker_.sockets.change(id_.fd(), EPOLLIN, *this);
}

CmLink::~CmLink() { worker_.sockets.forget(id_.fd()); }

void CmLink::on_socket() noexcept {
  while (const auto event = id_.next()) {
    if (event->type == RDMA_CM_EVENT_DISCONNECTED || event->type == RDMA_CM_EVENT_DEVICE_REMOVAL)
      endpoint_.watch.see_end();
  }
}

}  // namespace hbmwire::detail

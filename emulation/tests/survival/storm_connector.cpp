// SPDX-License-Identifier: MIT
#include "emulation/tests/survival/storm_connector.hpp"

#include <fcntl.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

namespace hbmwire::test {
namespace {

constexpr std::uint16_t kFirstPort = 20000;

sockaddr_in address_of(std::size_t worker) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(kFirstPort + worker));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

/// The error of a call of librdmacm, which returns -1 and sets errno.
int error_of(int result) { return result == 0 ? 0 : errno; }

/// A channel that does not block.
rdma_event_channel* make_channel() {
  rdma_event_channel* channel = nullptr;
  const auto make = [&] {
    channel = rdma_create_event_channel();
    return channel != nullptr ? 0 : errno;
  };
  if (persist("rdma_create_event_channel", make) != 0) give_up("rdma_create_event_channel");
  ::fcntl(channel->fd, F_SETFL, ::fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
  return channel;
}

rdma_cm_id* make_id(rdma_event_channel* channel) {
  rdma_cm_id* id = nullptr;
  const auto make = [&] { return error_of(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP)); };
  if (persist("rdma_create_id", make) != 0) give_up("rdma_create_id");
  return id;
}

}  // namespace

Connector::Connector(Board& board, std::size_t self, Random& random)
    : board_(board), self_(self), random_(random) {
  listening_ = make_channel();
  connecting_ = make_channel();
  listener_ = make_id(listening_);
  sockaddr_in address = address_of(self);
  // A killed predecessor may have held the port. Its records are freed when they are in the way,
  // unless a stopped process holds the lock.
  const auto bind = [&] {
    const int error = error_of(rdma_bind_addr(listener_, reinterpret_cast<sockaddr*>(&address)));
    return error == EADDRNOTAVAIL || error == EADDRINUSE ? EAGAIN : error;
  };
  if (persist("rdma_bind_addr", bind) != 0) give_up("rdma_bind_addr");
  if (persist("rdma_listen", [&] { return error_of(rdma_listen(listener_, 8)); }) != 0)
    give_up("rdma_listen");
}

void Connector::destroy(rdma_cm_id* id) {
  const int error = persist("rdma_destroy_id", [&] { return error_of(rdma_destroy_id(id)); });
  if (error != 0) give_up("rdma_destroy_id", static_cast<std::uint64_t>(error));
}

bool Connector::next(rdma_event_channel* channel, rdma_cm_event& event) {
  rdma_cm_event* got = nullptr;
  const int error =
      bounded("rdma_get_cm_event", [&] { return error_of(rdma_get_cm_event(channel, &got)); });
  if (error == EAGAIN) return false;
  if (error != 0) give_up("rdma_get_cm_event", static_cast<std::uint64_t>(error));
  event = *got;
  bounded("rdma_ack_cm_event", [&] { return rdma_ack_cm_event(got); });
  return true;
}

void Connector::step() {
  if (below(random_, 8) != 0) return;  // leaves most of the worker's time to its sessions
  rdma_cm_event event{};
  if (next(listening_, event)) serve(event);
  if (active_ == nullptr) {
    if (below(random_, 8) == 0) begin();
    return;
  }
  if (next(connecting_, event)) {
    go_on(event);
  } else if (clock_ns() - since_ns_ > kLongestNs) {
    give_up("a connection neither comes nor fails");
  }
}

void Connector::begin() {
  active_ = make_id(connecting_);
  since_ns_ = clock_ns();
  sockaddr_in address = address_of(below(random_, kWorkers));
  const int error = bounded("rdma_resolve_addr", [&] {
    return error_of(
        rdma_resolve_addr(active_, nullptr, reinterpret_cast<sockaddr*>(&address), 1000));
  });
  if (error != 0) end_active();
}

void Connector::end_active() {
  destroy(active_);
  active_ = nullptr;
}

void Connector::go_on(const rdma_cm_event& event) {
  int error = -1;
  since_ns_ = clock_ns();
  if (event.event == RDMA_CM_EVENT_ADDR_RESOLVED) {
    error =
        bounded("rdma_resolve_route", [&] { return error_of(rdma_resolve_route(active_, 1000)); });
  } else if (event.event == RDMA_CM_EVENT_ROUTE_RESOLVED) {
    rdma_conn_param parameters{};
    parameters.qp_num = 77;  // any number: there is no queue pair
    parameters.retry_count = 7;
    error = bounded("rdma_connect", [&] { return error_of(rdma_connect(active_, &parameters)); });
  } else if (event.event == RDMA_CM_EVENT_CONNECT_RESPONSE) {
    error = bounded("rdma_establish", [&] { return error_of(rdma_establish(active_)); });
    board_.connections.fetch_add(1);
    if (error == 0 && below(random_, 2) == 0)
      error = bounded("rdma_disconnect", [&] { return error_of(rdma_disconnect(active_)); });
    else
      error = -1;  // destroys the id without a disconnect
  }
  if (error != 0) end_active();
}

void Connector::serve(const rdma_cm_event& event) {
  if (event.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
    rdma_conn_param parameters{};
    parameters.qp_num = 78;  // any number
    const int error = below(random_, 4) == 0 ? -1 : bounded("rdma_accept", [&] {
      return error_of(rdma_accept(event.id, &parameters));
    });
    if (error == 0) {
      accepted_.push_back(event.id);
    } else {
      bounded("rdma_reject", [&] { return rdma_reject(event.id, nullptr, 0); });
      destroy(event.id);
    }
    return;
  }
  if (event.event == RDMA_CM_EVENT_ESTABLISHED) return;
  const auto found = std::find(accepted_.begin(), accepted_.end(), event.id);
  if (found == accepted_.end()) return;  // destroyed meanwhile
  destroy(*found);
  accepted_.erase(found);
}

void Connector::settle() {
  if (active_ != nullptr) end_active();
  rdma_cm_event event{};
  const std::uint64_t start = clock_ns();
  while (!accepted_.empty()) {
    if (next(listening_, event)) serve(event);
    if (clock_ns() - start > kLongestNs) give_up("an accepted connection does not end");
  }
}

void Connector::finish() {
  if (active_ != nullptr) end_active();
  for (rdma_cm_id* id : accepted_) destroy(id);
  destroy(listener_);
  bounded("rdma_destroy_event_channel", [&] {
    rdma_destroy_event_channel(listening_);
    rdma_destroy_event_channel(connecting_);
    return 0;
  });
}

}  // namespace hbmwire::test

// SPDX-License-Identifier: MIT
#include "endpoint/tcp_user.hpp"

#include <sys/epoll.h>

#include <utility>

#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

namespace {

TransferState* find_receive(const EndpointState& endpoint, std::uint64_t key) noexcept {
  // A receive's key over TCP is its id, of 32 bits (Rendezvous::key_for_writing()).
  if (key > ~std::uint32_t{0}) return nullptr;
  return endpoint.messages.written_by_peer(static_cast<std::uint32_t>(key));
}

}  // namespace

std::unique_ptr<transport::TcpLink> EndpointTcpUser::make_link(
    const transport::TcpLink::Depths& depths) {
  auto link = std::make_unique<transport::TcpLink>(port_.completions(), *this, depths);
  link_ = link.get();
  return link;
}

const std::string& EndpointTcpUser::peer() const noexcept { return endpoint_.peer; }

Result<void> EndpointTcpUser::watch(int fd) {
  HBMWIRE_TRY(endpoint_.worker->sockets.watch(fd, EPOLLIN, *this));
  fd_ = fd;
  watched_ = EPOLLIN;
  return {};
}

void EndpointTcpUser::watch_room(bool wanted) noexcept {
  if (watched_ == 0) return;
  const std::uint32_t events = wanted ? EPOLLIN | EPOLLOUT : EPOLLIN;
  if (events != watched_) endpoint_.worker->sockets.change(fd_, events, *this);
  watched_ = events;
}

void EndpointTcpUser::stop_watching() noexcept {
  if (std::exchange(watched_, 0) != 0) endpoint_.worker->sockets.forget(fd_);
}

void EndpointTcpUser::note_event() noexcept { ++endpoint_.worker->event_count; }

void EndpointTcpUser::look_soon() noexcept { endpoint_.look_soon(); }

void EndpointTcpUser::begin_engine() noexcept {
  ++endpoint_.movers.moving;
  ++endpoint_.worker->staged;
}

void EndpointTcpUser::end_engine() noexcept {
  --endpoint_.movers.moving;
  --endpoint_.worker->staged;
  ++endpoint_.worker->event_count;
}

std::optional<transport::TcpWindow> EndpointTcpUser::window(std::uint64_t key) const noexcept {
  const TransferState* const receive = find_receive(endpoint_, key);
  if (receive == nullptr) return std::nullopt;
  return transport::TcpWindow{
      .address = receive->operation.local,
      .length_bytes = receive->bytes,
      .device = endpoint_.is_staged(*receive) ? &receive->region->allocation : nullptr};
}

void EndpointTcpUser::lose_window(std::uint64_t key, const Error& why) noexcept {
  TransferState* const receive = find_receive(endpoint_, key);
  if (receive == nullptr) return;
  endpoint_.worker->transfers.set_error(*receive, why);
  receive->then = TransferState::Then::fail;
}

std::byte* EndpointTcpUser::take_piece(MemoryDomain* device) noexcept {
  return port_.take_piece(device);
}

void EndpointTcpUser::give_back(std::byte* piece) noexcept { port_.give_back(piece); }

}  // namespace hbmwire::detail

// SPDX-License-Identifier: MIT
#include "hbmwire/low_level/tcp.hpp"

#include <utility>

#include "hbmwire/host_port.hpp"

#include "base/guarded.hpp"
#include "wire/dial.hpp"
#include "wire/listening_socket.hpp"
#include "wire/socket_io.hpp"

namespace hbmwire::tcp {

namespace detail {

struct ListenerState {
  wire::ListeningSocket socket;
};

}  // namespace detail

Result<Fd> connect(const std::string& host, std::uint16_t port, const Wait& wait) {
  return guarded(Stage::connect,
                 [&] { return wire::dial(host, port, join_host_port(host, port), wait); });
}

Result<void> send(int fd, std::span<const std::byte> data, const Wait& wait,
                  std::string_view peer) {
  return wire::send_all(fd, data, wait, peer);
}

Result<void> receive(int fd, std::span<std::byte> data, const Wait& wait, std::string_view peer) {
  return wire::receive_all(fd, data, wait, peer);
}

Result<Listener> Listener::listen(const std::string& address, std::uint16_t port) {
  return guarded(Stage::connect, [&]() -> Result<Listener> {
    HBMWIRE_TRY_ASSIGN(wire::ListeningSocket socket, wire::listen_on(address, port));
    return Listener(
        std::make_unique<detail::ListenerState>(detail::ListenerState{std::move(socket)}));
  });
}

Listener::Listener(std::unique_ptr<detail::ListenerState> state) noexcept
    : state_(std::move(state)) {}

Listener::Listener(Listener&&) noexcept = default;
Listener& Listener::operator=(Listener&&) noexcept = default;
Listener::~Listener() = default;

std::uint16_t Listener::port() const noexcept { return state_->socket.port; }

int Listener::fd() const noexcept { return state_->socket.socket.get(); }

Result<Accepted> Listener::accept() {
  return guarded(Stage::connect, [&]() -> Result<Accepted> {
    wire::AcceptedSocket taken = wire::accept_one(state_->socket);
    // If the options cannot be set, the connection has ended already.
    if (taken.socket && !wire::tune(taken.socket.get(), taken.peer)) taken.socket.reset();
    return Accepted{std::move(taken.socket), std::move(taken.peer), taken.shortage};
  });
}

void Listener::keep_spare() noexcept { static_cast<void>(wire::keep_reserve(state_->socket)); }

}  // namespace hbmwire::tcp

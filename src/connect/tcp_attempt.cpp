// SPDX-License-Identifier: MIT
#include "connect/tcp_attempt.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "hbmwire/host_port.hpp"

#include "base/guarded.hpp"
#include "verbs/link_options.hpp"
#include "wire/dial.hpp"
#include "wire/socket_io.hpp"

namespace hbmwire::detail {

namespace {

using Side = wire::Handshake::Side;
using Step = wire::Handshake::Step;
using wire::Refusal;

// Most bytes that are read from a refused peer. Unread bytes would turn close(2) into a reset, with
// which TCP would throw the refusal away.
constexpr std::size_t kMostDropped = 16384;

/// Whether the NICs of a new endpoint can keep the options. Errors: as verbs::port_entries().
Result<void> check_links(WorkerState& worker, const LinkOptions& link) {
  HBMWIRE_TRY_ASSIGN(const auto nics, worker.nics_for_lanes());
  for (const WorkerNic* const nic : nics)
    HBMWIRE_TRY(verbs::port_entries(state_of(nic->nic), link));
  return {};
}

}  // namespace

TcpAttempt::~TcpAttempt() {
  if (events_ != 0) raw_worker_->sockets.forget(socket_.get());
}

Result<std::unique_ptr<TcpAttempt>> TcpAttempt::dial(const std::shared_ptr<WorkerState>& worker,
                                                     std::string_view where,
                                                     wire::AddressWalk addresses,
                                                     const EndpointOptions& options) {
  const std::uint32_t whereabouts = whereabouts_for(*worker, options);
  HBMWIRE_TRY_ASSIGN(auto handshake, wire::Handshake::create(Side::connecting, std::string(where),
                                                             options.pre_shared_key, whereabouts));
  std::unique_ptr<TcpAttempt> attempt(new TcpAttempt(worker, std::move(handshake), options));
  // Finds mistakes before dialing: checks the options of an endpoint that may be late, and makes
  // any other endpoint now.
  if (whereabouts != 0) {
    HBMWIRE_TRY(check_links(*worker, options.link));
  } else {
    attempt->on_greeting();
    if (attempt->handshake_.step() == Step::refused)
      return tl::make_unexpected(attempt->handshake_.error());
  }
  attempt->addresses_ = std::move(addresses);
  attempt->dialing_ = true;
  HBMWIRE_TRY(attempt->dial_next());
  return attempt;
}

Result<std::unique_ptr<TcpAttempt>> TcpAttempt::welcome(const std::shared_ptr<WorkerState>& worker,
                                                        wire::AcceptedSocket socket,
                                                        const EndpointOptions& options) {
  HBMWIRE_TRY(wire::tune(socket.socket.get(), socket.peer));
  HBMWIRE_TRY_ASSIGN(
      auto handshake,
      wire::Handshake::create(Side::accepting, std::move(socket.peer), options.pre_shared_key,
                              whereabouts_for(*worker, options)));
  std::unique_ptr<TcpAttempt> attempt(new TcpAttempt(worker, std::move(handshake), options));
  attempt->shortage = socket.shortage;
  attempt->accepting_ = true;
  attempt->socket_ = std::move(socket.socket);
  HBMWIRE_TRY(worker->sockets.watch(attempt->socket_.get(), EPOLLIN, *attempt));
  attempt->events_ = EPOLLIN;
  return attempt;
}

/// Tries the next address of the name, until one answers.
Result<void> TcpAttempt::dial_next() {
  if (std::exchange(events_, 0) != 0) raw_worker_->sockets.forget(socket_.get());
  socket_.reset();
  return addresses_.next([this](const addrinfo& address) -> Result<void> {
    HBMWIRE_TRY_ASSIGN(socket_, wire::start_dial(address, peer(), options_.link.mtu_bytes));
    HBMWIRE_TRY(raw_worker_->sockets.watch(socket_.get(), EPOLLOUT, *this));
    events_ = EPOLLOUT;
    return {};
  });
}

/// The address has answered, or refused.
void TcpAttempt::finish_dial() {
  const auto dialed = wire::finish_dial(socket_.get(), peer());
  if (dialed) {
    dialing_ = false;
    return;
  }
  leave_address(dialed.error());
}

/// Goes on to the next address.
void TcpAttempt::leave_address(const Error& why) {
  addresses_.give_up(why);
  if (const auto next = dial_next(); !next) end(next.error());
}

void TcpAttempt::look_after() noexcept {
  ConnectionAttempt::look_after();
  if (!dialing_ || !addresses_.leaves_it()) return;
  const auto left = guarded(Stage::connect, [&]() -> Result<void> {
    leave_address(timed_out());
    return {};
  });
  if (!left) refuse(Refusal::no_room, left.error());
}

void TcpAttempt::on_socket() noexcept {
  const auto gone_on = guarded(Stage::connect, [&]() -> Result<void> {
    if (dialing_) finish_dial();
    if (!dialing_) advance();
    return {};
  });
  if (!gone_on) refuse(wire::Refusal::no_room, gone_on.error());
}

/// Refuses the peer and tells it why, if there is memory for that.
void TcpAttempt::refuse(Refusal why, const Error& error) noexcept {
  static_cast<void>(guarded(Stage::connect, [&]() -> Result<void> {
    handshake_.refuse(why, error);
    return {};
  }));
  end(error);
}

/// Does the steps of the handshake that are possible now.
void TcpAttempt::advance() {
  if (over_) {
    linger();
    return;
  }
  // The loop is bounded: the whole handshake takes fewer than 2 KiB.
  while (!over_) {
    const bool sent = send();
    if (over_) return;
    if (sent && handshake_.step() == Step::done) {
      finish();
      return;
    }
    if (handshake_.step() == Step::has_greeting) {
      on_greeting();
    } else if (handshake_.step() == Step::has_offer) {
      on_offer();
    } else if (handshake_.step() == Step::refused) {
      end(handshake_.error());
      return;
    } else if (!receive()) {
      break;
    }
  }
  watch();
}

/// Sends what it can. True: everything is sent.
bool TcpAttempt::send() noexcept {
  while (!handshake_.to_send().empty()) {
    const auto bytes = handshake_.to_send();
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      handshake_.sent(static_cast<std::size_t>(sent));
    } else if (errno != EINTR) {
      // The peer has gone, so nothing is left to send. Its last bytes may still be there to read,
      // above all the reason.
      if (errno != EAGAIN) handshake_.sent(bytes.size());
      return false;
    }
  }
  return true;
}

/// Reads some bytes. True: there may be more.
bool TcpAttempt::receive() {
  std::array<std::byte, 512> bytes;
  const std::size_t most = std::min(handshake_.wanted(), bytes.size());
  if (most == 0) return false;
  const ssize_t got = ::recv(socket_.get(), bytes.data(), most, 0);
  if (got > 0) {
    note_word();
    handshake_.take(std::span(bytes).first(static_cast<std::size_t>(got)));
    return true;
  }
  if (got < 0 && errno == EINTR) return true;
  if (got < 0 && errno == EAGAIN) return false;
  handshake_.end();
  return true;
}

/// Gives the socket to the endpoint: the handshake is over.
void TcpAttempt::finish() {
  raw_worker_->sockets.forget(socket_.get());
  events_ = 0;
  over_ = true;
  silent_ = true;
  const auto taken =
      guarded(Stage::connect, [&] { return endpoint_->wiring.take_socket(std::move(socket_)); });
  if (!taken) error_ = taken.error();
}

/// Ends the handshake without an endpoint.
void TcpAttempt::end(const Error& why) noexcept {
  if (over_) return;
  error_ = why;
  over_ = true;
  dialing_ = false;
  if (!socket_) {
    silent_ = true;
    return;
  }
  static_cast<void>(send());
  watch();
  linger();
}

/// Sends the refusal, and drops bytes of the peer until it has closed its end (kMostDropped).
void TcpAttempt::linger() noexcept {
  if (silent_) return;
  if (!handshake_.to_send().empty() && !send()) return;
  ::shutdown(socket_.get(), SHUT_WR);
  std::array<std::byte, 512> bytes;
  ssize_t got = 1;
  while (got > 0 && dropped_ < kMostDropped) {
    got = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (got > 0) dropped_ += static_cast<std::size_t>(got);
  }
  silent_ = got == 0 || dropped_ >= kMostDropped || (got < 0 && errno != EAGAIN && errno != EINTR);
  if (!silent_) {
    watch();
    return;
  }
  if (std::exchange(events_, 0) != 0) raw_worker_->sockets.forget(socket_.get());
  socket_.reset();
}

/// Watches for room only while there is something to send.
void TcpAttempt::watch() noexcept {
  const std::uint32_t events = EPOLLIN | (handshake_.to_send().empty() ? 0U : EPOLLOUT);
  if (events_ == 0 || events == events_) return;
  raw_worker_->sockets.change(socket_.get(), events, *this);
  events_ = events;
}

void TcpAttempt::give_up() noexcept {
  if (over_) return;
  refuse(Refusal::too_slow, timed_out());
}

bool TcpAttempt::has_unread() const noexcept {
  std::byte next{};
  return ::recv(socket_.get(), &next, sizeof next, MSG_PEEK) >= 0;
}

Error TcpAttempt::timed_out() const noexcept {
  if (dialing_) {
    return make_error(Errc::timed_out, Stage::connect, "no answer to the connection request",
                      peer(), Hint::host_unreachable);
  }
  return make_error(Errc::timed_out, Stage::connect, "the peer does not get on with the handshake",
                    peer(), Hint::peer_slow);
}

}  // namespace hbmwire::detail

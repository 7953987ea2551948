// SPDX-License-Identifier: MIT
#include "connect/listener_state.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "hbmwire/host_port.hpp"

#include "base/guarded.hpp"
#include "base/log.hpp"
#include "connect/link_timing.hpp"
#include "verbs/link_options.hpp"

namespace hbmwire::detail {

namespace {

using namespace std::chrono_literals;

// Without descriptors a connection stays in the kernel's queue; the listener looks again after
// this.
constexpr auto kDescriptorPause = 50ms;
// A peer that has been silent for this long gives its place up to one that waits for it.
constexpr auto kSilence = 500ms;
// How long a refused peer has to read why.
constexpr auto kParting = 1s;
// Lines in the log in one period. A peer that connects in vain again and again must not fill the
// disk.
constexpr unsigned kMostTold = 10;

void say_that_anybody_may_connect(std::uint16_t port) {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  log_line(LogLevel::warn, [&] {
    return "port " + std::to_string(port) +
           ": endpoints are not authenticated, since there is no pre-shared "
           "key: every program that reaches the port may connect";
  });
}

}  // namespace

Result<std::shared_ptr<ListenerState>> ListenerState::create(
    const std::shared_ptr<WorkerState>& worker, const ListenerOptions& options) {
  if (options.max_handshakes == 0 || options.handshake_timeout < 10ms) {
    return tl::make_unexpected(
        make_error(Errc::invalid_argument, Stage::configure,
                   "a listener has one handshake or more at a time, of 10 ms or more",
                   "max_handshakes, handshake_timeout"));
  }
  HBMWIRE_TRY_ASSIGN(EndpointOptions endpoint, complete(worker->context, options.endpoint));
  HBMWIRE_TRY(wire::check_key(endpoint.pre_shared_key));
  if (options.rdma_cm) HBMWIRE_TRY(check_managed(endpoint.link));
  // Checked here, since there is no caller to tell once a peer has come.
  for (const WorkerNic& nic : worker->nics)
    HBMWIRE_TRY(verbs::port_entries(state_of(nic.nic), endpoint.link));
  const std::shared_ptr<ListenerState> listener(new ListenerState(worker), [](auto* state) {
    if (!state->worker->is_left_as_is()) delete state;
  });
  listener->options = options;
  listener->options.endpoint = std::move(endpoint);
  const WorkerLock lock(*worker);
  worker->by_clock.add(*listener);
  if (options.rdma_cm) {
    HBMWIRE_TRY(listener->listen_by_cm());
  } else {
    HBMWIRE_TRY_ASSIGN(listener->listening, wire::listen_on(options.address, options.port));
    HBMWIRE_TRY(worker->sockets.watch(listener->listening.socket.get(), EPOLLIN, *listener));
    listener->watched = true;
  }
  if (listener->options.endpoint.pre_shared_key.empty())
    say_that_anybody_may_connect(listener->port());
  return listener;
}

ListenerState::~ListenerState() {
  const WorkerLock lock(*worker);
  worker->by_clock.remove(*this);
  listen(false);
  attempts.clear();
  parting.clear();
  for (const auto& endpoint : ready) {
    endpoint->keeps_worker.reset();
    endpoint->ending.abandon();
  }
}

/// Listens by the connection manager. IPv6's wildcard takes IPv4, too (RDMA_OPTION_ID_AFONLY is
/// off).
Result<void> ListenerState::listen_by_cm() {
  HBMWIRE_TRY_ASSIGN(const HostPort place, wire::listening_place(options.address, options.port));
  const std::string where = "rdma_cm://" + join_host_port(place.host, place.port);
  HBMWIRE_TRY_ASSIGN(const auto addresses, wire::resolve(place.host, place.port, /*passive=*/true,
                                                         {Deadline::after(5s), -1}));
  Error reason = make_error(Errc::not_found, Stage::connect, "no address to listen on", where,
                            Hint::name_resolution);
  for (const int family : {AF_INET6, AF_INET}) {
    for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
      if (at->ai_family != family) continue;
      HBMWIRE_TRY_ASSIGN(auto id, transport::CmId::create(where));
      if (const auto listens = id.listen(*at->ai_addr); !listens) {
        reason = listens.error();
        continue;
      }
      auto made = std::make_unique<CmPort>(*this, std::move(id));
      HBMWIRE_TRY(worker->sockets.watch(made->id.fd(), EPOLLIN, *made));
      watched = true;
      managed = std::move(made);
      return {};
    }
  }
  return tl::make_unexpected(reason);
}

void ListenerState::listen(bool on) noexcept {
  if (on == watched) return;
  const int fd = managed ? managed->id.fd() : listening.socket.get();
  SocketOwner& owner = managed ? static_cast<SocketOwner&>(*managed) : *this;
  if (!on) {
    worker->sockets.forget(fd);
    watched = false;
  } else {
    watched = worker->sockets.watch(fd, EPOLLIN, owner).has_value();
  }
}

void ListenerState::on_socket() noexcept {
  // If there is no memory for a connection, it is closed.
  const auto taken = guarded(Stage::connect, [&]() -> Result<void> {
    take_one();
    return {};
  });
  if (!taken) tell(taken.error());
}

void ListenerState::take_one() {
  if (!make_room()) {
    listen(false);
    return;
  }
  auto accepted = wire::accept_one(listening);
  if (accepted.shortage) {
    // The refused peer holds the spare descriptor until it has read why.
    listen(false);
    listen_again = WorkerState::Clock::now() + kDescriptorPause;
    if (!accepted.socket) {
      if (shortage.is_new(*accepted.shortage)) tell(*accepted.shortage);
      parting.clear();  // gives up refused peers, which hold descriptors
    }
  } else if (accepted.socket) {
    shortage.forget();
  }
  if (!accepted.socket) return;
  auto attempt = TcpAttempt::welcome(worker, std::move(accepted), options.endpoint);
  if (attempt) {
    (*attempt)->ask_before(admits);
    attempts.push_back(std::move(*attempt));
  } else {
    tell(attempt.error());
  }
}

bool ListenerState::is_shaking_hands(std::span<const std::byte> hello) const noexcept {
  return std::ranges::any_of(
      attempts, [&](const auto& each) { return std::ranges::equal(each->admitted(), hello); });
}

void ListenerState::take_request(const transport::CmEvent& request) noexcept {
  const auto taken = guarded(Stage::connect, [&]() -> Result<void> {
    if (!request.ours) return tl::make_unexpected(CmAttempt::turn_away(request));
    HBMWIRE_TRY_ASSIGN(auto attempt, CmAttempt::welcome(worker, request, options.endpoint));
    attempts.push_back(std::move(attempt));
    return {};
  });
  if (!taken) tell(taken.error());
}

ConnectionAttempt* ListenerState::silent_one() const noexcept {
  const auto one =
      std::ranges::min_element(attempts, {}, [](const auto& each) { return each->heard(); });
  if (one == attempts.end() || WorkerState::Clock::now() - (*one)->heard() < kSilence)
    return nullptr;
  return one->get();
}

bool ListenerState::make_room() noexcept {
  if (ready.size() >= options.max_handshakes) return false;
  if (attempts.size() < options.max_handshakes) return true;
  while (ConnectionAttempt* const silent = silent_one()) {
    if (!silent->has_unread()) {
      displace(*silent);
      return true;
    }
    // The peer has sent something, and this end was too busy to read it.
    silent->note_word();
  }
  return false;
}

void ListenerState::displace(ConnectionAttempt& attempt) noexcept {
  const auto at =
      std::ranges::find(attempts, &attempt, [](const auto& each) { return each.get(); });
  attempt.give_up();
  tell(attempt.timed_out());
  if (!attempt.silent()) let_part(std::move(*at));
  attempts.erase(at);
}

void ListenerState::settle(ConnectionAttempt& attempt) noexcept {
  auto endpoint = attempt.take();
  if (!endpoint) {
    // A peer that connects and leaves without a word only checked whether the port is open, as load
    // balancers do all the time.
    const bool only_looked =
        endpoint.error().hint == Hint::peer_gone && attempt.heard() == attempt.began;
    const bool turned_away = endpoint.error().code == Errc::busy;
    tell(endpoint.error(), only_looked || turned_away ? LogLevel::info : LogLevel::warn);
    return;
  }
  (*endpoint)->remote_regions.advertise(advertised);
  const auto kept = guarded(Stage::connect, [&]() -> Result<void> {
    ready.push_back(*endpoint);
    return {};
  });
  if (kept) return;
  tell(kept.error());
  (*endpoint)->keeps_worker.reset();
  (*endpoint)->ending.abandon();
}

/// Keeps a handshake that still has something to tell its peer, if there is memory for that.
void ListenerState::let_part(std::unique_ptr<ConnectionAttempt> attempt) noexcept {
  static_cast<void>(guarded(Stage::connect, [&]() -> Result<void> {
    parting.push_back(std::move(attempt));
    return {};
  }));
}

void ListenerState::look_after(WorkerState::Clock::time_point now) noexcept {
  for (std::size_t i = 0; i < attempts.size();) {
    ConnectionAttempt& attempt = *attempts[i];
    attempt.look_after();
    // A peer that is refused because of a shortage holds the spare descriptor: it gets less time.
    const auto patience = attempt.shortage ? std::min<WorkerState::Clock::duration>(
                                                 kParting, options.handshake_timeout)
                                           : options.handshake_timeout;
    if (now - attempt.began > patience) attempt.give_up();
    if (!attempt.over()) {
      ++i;
      continue;
    }
    settle(attempt);
    if (!attempt.silent()) let_part(std::move(attempts[i]));
    attempts.erase(attempts.begin() + static_cast<std::ptrdiff_t>(i));
  }
  std::erase_if(parting, [&](const auto& attempt) {
    return attempt->silent() ||
           now > Deadline::later(Deadline::later(attempt->began, options.handshake_timeout),
                                 kParting);
  });
  if (parting.size() > options.max_handshakes) parting.erase(parting.begin());
  if (!options.rdma_cm) static_cast<void>(wire::keep_reserve(listening));
  // Both the handshakes and the endpoints that wait for accept() are bounded. The kernel keeps
  // further peers.
  const bool has_place = attempts.size() < options.max_handshakes || silent_one() != nullptr;
  listen(has_place && ready.size() < options.max_handshakes && now >= listen_again);
}

std::shared_ptr<EndpointState> ListenerState::next() noexcept {
  while (!ready.empty()) {
    auto endpoint = std::move(ready.front());
    ready.pop_front();
    if (endpoint->phase != EndpointPhase::failed) return endpoint;
    tell(*endpoint->ending.error());
    endpoint->keeps_worker.reset();
    endpoint->ending.abandon();
  }
  return nullptr;
}

void ListenerState::tell(const Error& why, LogLevel level) noexcept {
  const auto now = WorkerState::Clock::now();
  if (now - told_since > 1s) {
    told_since = now;
    told = 0;
  }
  if (++told > kMostTold) return;
  log_line(level, [&] { return describe(why); });
  if (told == kMostTold)
    log_line(LogLevel::warn, "more peers are refused: they are not named for a second");
}

}  // namespace hbmwire::detail

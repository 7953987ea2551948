// SPDX-License-Identifier: MIT
#include "group/peers.hpp"

#include <algorithm>
#include <utility>

#include "hbmwire/pending.hpp"

#include "connect/listener_state.hpp"

namespace hbmwire::detail {

namespace {

using namespace std::chrono_literals;

// A rank whose addresses all refuse may be about to listen again.
constexpr auto kBetweenDials = 20ms;

}  // namespace

Peers::Peers(Worker worker, Listener listener, EndpointOptions options)
    : worker_(std::move(worker)), options_(std::move(options)), listener_(std::move(listener)) {}

Result<std::unique_ptr<Peers>> Peers::create(const Worker& worker, EndpointOptions options,
                                             const std::string& address, std::uint32_t size) {
  ListenerOptions listen;
  listen.address = address;
  listen.endpoint = options;
  // Each other rank may connect for both uses before the program next asks for an endpoint. Not
  // below the default of 64.
  listen.max_handshakes = std::max<std::uint32_t>(64, 2 * size);
  HBMWIRE_TRY_ASSIGN(Listener listener, Listener::create(worker, listen));
  std::unique_ptr<Peers> peers(new Peers(worker, std::move(listener), std::move(options)));
  const WorkerLock lock(state_of(worker));
  state_of(peers->listener_).admits = [raw = peers.get()](std::span<const std::byte> hello) {
    return raw->admits(hello);
  };
  return peers;
}

Peers::~Peers() {
  const WorkerLock lock(state_of(worker_));
  state_of(listener_).admits = nullptr;
  peers_.clear();
}

Result<std::vector<std::string>> Peers::addresses() const { return listener_.addresses(); }

void Peers::begin(const wire::Joined& joined) {
  const WorkerLock lock(state_of(worker_));
  peers_.clear();
  epoch_ = joined;
}

/// The key in a hello of this epoch.
std::optional<Peers::Key> Peers::key_of(std::span<const std::byte> hello) const noexcept {
  const auto peer = wire::decode_peer_hello(hello);
  const bool ours = peer && peer->group == epoch_.group && peer->rank < epoch_.members.size() &&
                    peer->rank != epoch_.rank &&
                    peer->use <= static_cast<std::uint8_t>(PeerUse::chain);
  if (!ours) return std::nullopt;
  return Key{peer->rank, static_cast<PeerUse>(peer->use)};
}

bool Peers::admits(std::span<const std::byte> hello) const noexcept {
  const auto key = key_of(hello);
  if (!key) return false;
  const auto known = peers_.find(*key);
  if (known == peers_.end()) return true;
  // If two ranks dial each other, the lower one's dial wins.
  return !known->second.is_ready() && !(known->second.dialing && epoch_.rank < key->first);
}

void Peers::take_accepted() {
  const WorkerLock lock(state_of(worker_));
  while (auto accepted = state_of(listener_).next()) {
    auto endpoint = handle_of<Endpoint>(std::move(accepted));
    const auto key = key_of(endpoint.peer_hello());
    if (key && !peers_[*key].is_ready()) peers_[*key].take(std::move(endpoint));
  }
}

Result<Endpoint*> Peers::get(std::uint32_t rank, PeerUse use, const Wait& wait, Member& member) {
  if (rank >= epoch_.members.size() || rank == epoch_.rank) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::connect,
                                          "there is no other rank of this number in the group",
                                          "rank " + std::to_string(rank)));
  }
  const Key key{rank, use};
  const std::vector<std::byte> hello_of_peer = wire::encode(
      wire::PeerHello{.group = epoch_.group, .rank = rank, .use = static_cast<std::uint8_t>(use)});
  const auto has_come = [&] {
    take_accepted();
    const WorkerLock lock(state_of(worker_));
    return peers_[key].is_ready();
  };
  const auto is_shaking_hands = [&] {
    const WorkerLock lock(state_of(worker_));
    return state_of(listener_).is_shaking_hands(hello_of_peer);
  };
  while (!has_come()) {
    if (member.is_gone(rank))
      return tl::make_unexpected(Member::gone_error(Stage::connect, {rank}));
    if (is_shaking_hands()) {
      const auto ended = member.drive(wait, [&] { return !is_shaking_hands(); });
      if (!ended) return tl::make_unexpected(about(rank, ended.error()));
      continue;
    }
    HBMWIRE_TRY(dial(key, peers_[key], wait, member));
  }
  return peers_[key].endpoint.get();
}

/// Tries each address of the rank once. Returns when there is an endpoint, by either rank's dial,
/// when the rank has gone, or after a pause when all addresses have refused.
Result<void> Peers::dial(Key key, Peer& peer, const Wait& wait, Member& member) {
  EndpointOptions options = options_;
  options.retry_connect = true;
  options.hello = wire::encode(wire::PeerHello{
      .group = epoch_.group, .rank = epoch_.rank, .use = static_cast<std::uint8_t>(key.second)});
  // Starts and sets `dialing` with the lock held: a peer that dials in between must be turned away.
  const auto start = [&](const std::string& address, const Deadline& until) {
    const WorkerLock lock(state_of(worker_));
    auto pending = Endpoint::start_connect(worker_, address, until, options);
    peer.dialing = pending.has_value();
    return pending;
  };
  Error last = make_error(Errc::not_found, Stage::connect, "the rank has no address");
  const auto& addresses = epoch_.members[key.first].addresses;
  for (const std::string& address : addresses) {
    const auto share = Deadline::later(Deadline::Clock::now(), Member::kOneAddress);
    const Deadline until(addresses.size() == 1 ? wait.deadline.when()
                                               : std::min(wait.deadline.when(), share));
    HBMWIRE_TRY_ASSIGN(PendingEndpoint pending, start(address, until));
    const auto driven = member.drive(wait, [&] {
      take_accepted();
      return pending.transfer().done() || peer.is_ready() || member.is_gone(key.first);
    });
    const WorkerLock lock(state_of(worker_));
    peer.dialing = false;
    if (peer.is_ready() || member.is_gone(key.first)) return {};
    if (!driven) return tl::make_unexpected(about(key.first, driven.error()));
    auto made = pending.take();
    if (made) {
      peer.take(std::move(*made));
      return {};
    }
    last = made.error();
  }
  if (!Member::may_pass(last)) return tl::make_unexpected(about(key.first, last));
  const Wait pause{Deadline(std::min(wait.deadline.when(),
                                     Deadline::later(Deadline::Clock::now(), kBetweenDials))),
                   wait.cancel_fd};
  const auto paused = member.drive(pause, [] { return false; });
  if (paused.error().code == Errc::cancelled || wait.deadline.passed()) {
    if (paused.error().code == Errc::cancelled) last.code = Errc::cancelled;
    return tl::make_unexpected(about(key.first, last));
  }
  return {};
}

/// The error, with the rank before its own subject.
Error Peers::about(std::uint32_t rank, Error error) const {
  const std::string subject =
      std::string(error.subject).empty() ? epoch_.members[rank].host : std::string(error.subject);
  Error named = make_error(error.code, Stage::connect, error.call,
                           "rank " + std::to_string(rank) + ", " + subject, error.hint);
  named.number = error.number;
  named.number_kind = error.number_kind;
  return named;
}

void Peers::drop(std::uint32_t rank, PeerUse use) noexcept {
  const WorkerLock lock(state_of(worker_));
  if (const auto known = peers_.find({rank, use}); known != peers_.end()) {
    known->second.endpoint.reset();
    known->second.before.clear();
  }
}

}  // namespace hbmwire::detail

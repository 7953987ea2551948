// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hbmwire/endpoint.hpp"

#include "group/member.hpp"
#include "wire/group_messages.hpp"

namespace hbmwire::detail {

/// The use of an endpoint between two ranks. Each use has an endpoint of its own, so that the
/// library's messages and the program's never meet.
enum class PeerUse : std::uint8_t {
  program = 0,  ///< Group::endpoint()
  chain = 1,    ///< Group::broadcast()
};

/// The endpoints of a rank to the others, made on first use. Both ranks of a pair may ask at the
/// same time, and get the two ends of one connection: a rank that dials turns away a higher rank
/// that dials it meanwhile, and one that is connected turns away everyone of the same rank. So the
/// dial of the lower rank wins, and the higher one finds it among those that it has accepted.
class Peers {
 public:
  /// `options`: as GroupOptions::endpoint, `address`: GroupOptions::address. Errors: as
  /// Listener::create().
  static Result<std::unique_ptr<Peers>> create(const Worker& worker, EndpointOptions options,
                                               const std::string& address, std::uint32_t size);

  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;
  ~Peers();

  /// Where other ranks reach this one: as Listener::addresses().
  [[nodiscard]] Result<std::vector<std::string>> addresses() const;

  /// Ends all endpoints; further ones are of this epoch.
  void begin(const wire::Joined& joined);

  /// Errors: as Group::endpoint().
  Result<Endpoint*> get(std::uint32_t rank, PeerUse use, const Wait& wait, Member& member);

  /// Closes the endpoint of this use, and all failed ones before it.
  void drop(std::uint32_t rank, PeerUse use) noexcept;

 private:
  using Key = std::pair<std::uint32_t, PeerUse>;

  struct Peer {
    std::unique_ptr<Endpoint> endpoint;
    std::vector<std::unique_ptr<Endpoint>> before;  // failed ones, which the program may still use
    bool dialing = false;

    [[nodiscard]] bool is_ready() const noexcept {
      return endpoint && endpoint->phase() == EndpointPhase::ready;
    }

    void take(Endpoint made) {
      if (endpoint) before.push_back(std::move(endpoint));
      endpoint = std::make_unique<Endpoint>(std::move(made));
    }
  };

  Peers(Worker worker, Listener listener, EndpointOptions options);

  /// Whether the listener takes a rank that dials with this hello.
  [[nodiscard]] bool admits(std::span<const std::byte> hello) const noexcept;
  [[nodiscard]] std::optional<Key> key_of(std::span<const std::byte> hello) const noexcept;
  /// Gives each endpoint that the listener has accepted to its peer.
  void take_accepted();
  Result<void> dial(Key key, Peer& peer, const Wait& wait, Member& member);
  [[nodiscard]] Error about(std::uint32_t rank, Error error) const;

  // All below is used under the worker's lock: admits() is asked by whichever thread drives it.
  Worker worker_;
  EndpointOptions options_;
  wire::Joined epoch_;
  std::map<Key, Peer> peers_;
  Listener listener_;
};

}  // namespace hbmwire::detail

// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hbmwire/endpoint.hpp"
#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/memory_key.hpp"

#include "endpoint/remote_region_state.hpp"
#include "endpoint/task.hpp"
#include "wire/control_messages.hpp"

namespace hbmwire::detail {

struct AdvertisedRegions;
struct EndpointState;

/// A question to the peer: which memory does it advertise by this name?
class RegionQuestion final : public Task {
 public:
  RegionQuestion(std::shared_ptr<EndpointState> endpoint, std::string_view name, std::uint32_t id,
                 const Deadline& until);
  ~RegionQuestion() override;
  RegionQuestion(const RegionQuestion&) = delete;
  RegionQuestion& operator=(const RegionQuestion&) = delete;

  void look_after(std::chrono::steady_clock::time_point at) noexcept override;

  void give_up(const Error& why) noexcept override;

  [[nodiscard]] std::uint32_t id() const noexcept { return id_; }

  [[nodiscard]] bool is_sent() const noexcept { return sent_; }

  /// Sends the question. May throw std::bad_alloc.
  void send();

  /// The peer has answered: the question is over.
  void on_answer(const wire::Found& answer);

  /// The memory; only after the question has succeeded.
  [[nodiscard]] const RemoteRegionState& region() const noexcept { return region_; }

 private:
  Result<RemoteRegionState> resolve(const wire::Found& answer) const;

  /// Leaves the endpoint's list of questions, and lets go of the endpoint.
  void leave() noexcept;

  std::shared_ptr<EndpointState> endpoint_;  // until the question is over
  std::string name_;
  std::uint32_t id_;
  Deadline until_;
  bool sent_ = false;
  RemoteRegionState region_;
};

/// Memory of the peer, by name or by key, and this end's answers to a peer that asks for a name.
class RemoteRegions {
 public:
  explicit RemoteRegions(EndpointState& endpoint) noexcept : endpoint_(endpoint) {}

  RemoteRegions(const RemoteRegions&) = delete;
  RemoteRegions& operator=(const RemoteRegions&) = delete;
  ~RemoteRegions() = default;

  /// Sets the regions of the listener. Its endpoints may outlive the listener, so the regions are
  /// shared.
  void advertise(std::shared_ptr<AdvertisedRegions> regions) noexcept {
    advertised_ = std::move(regions);
  }

  /// Asks the peer. Errors: as Endpoint::remote().
  Result<std::unique_ptr<RegionQuestion>> ask(std::string_view name, const Deadline& until);

  /// Asks the peer, and waits for the answer. Errors: as Endpoint::remote().
  Result<RemoteRegionState> look_up(std::string_view name, const Wait& wait);

  /// The memory that a key opens, as this connection reaches it. Errors: as Endpoint::remote().
  [[nodiscard]] Result<RemoteRegionState> resolve(const RemoteKey& key) const;

  void on_look_up(const wire::LookUp& message);
  void on_found(const wire::Found& message);

  /// Sets the address of the peer's NIC, to which the endpoint is connected.
  void set_peer(const ConnectionAddress& peer) { peer_ = peer; }

  [[nodiscard]] const std::optional<ConnectionAddress>& peer() const noexcept { return peer_; }

 private:
  void ask_next();
  [[nodiscard]] Result<RemoteRegionState> resolve_over_tcp(const RemoteKey& key) const;
  [[nodiscard]] Result<RemoteRegionState> resolve_by_nic(const RemoteKey& key) const;

  friend class RegionQuestion;

  EndpointState& endpoint_;
  std::optional<ConnectionAddress> peer_;
  std::shared_ptr<AdvertisedRegions> advertised_;
  std::uint32_t last_id_ = 0;
  unsigned unanswered_ = 0;  // sent questions that the peer has yet to answer, also dropped ones
  // Questions that are not over, the oldest first; only the first ones are sent.
  std::vector<RegionQuestion*> questions_;
};

}  // namespace hbmwire::detail

// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "hbmwire/endpoint.hpp"
#include "hbmwire/memory_key.hpp"

#include "endpoint/remote_region_state.hpp"
#include "wire/control_messages.hpp"

namespace hbmwire::detail {

struct AdvertisedRegions;
struct EndpointState;

/// Memory of the peer's, by name or by key, and this end's answers to the peer that asks for a
/// name.
class RemoteRegions {
 public:
  explicit RemoteRegions(EndpointState& endpoint) noexcept : endpoint_(endpoint) {}

  RemoteRegions(const RemoteRegions&) = delete;
  RemoteRegions& operator=(const RemoteRegions&) = delete;
  ~RemoteRegions() = default;

  /// The listener's, which its endpoints outlive.
  void advertise(std::shared_ptr<AdvertisedRegions> regions) noexcept {
    advertised_ = std::move(regions);
  }

  /// Asks the peer, and waits. Errors: as Endpoint::remote().
  Result<RemoteRegionState> look_up(std::string_view name, const Wait& wait);

  /// Errors: as Endpoint::remote().
  [[nodiscard]] Result<RemoteRegionState> resolve(const RemoteKey& key) const;

  void on_look_up(const wire::LookUp& message);
  void on_found(const wire::Found& message);

 private:
  /// The question of a look_up() that waits; several threads may.
  struct Question {
    std::uint32_t id = 0;
    std::optional<wire::Found> answer;
  };

  [[nodiscard]] Result<RemoteRegionState> resolve_over_tcp(const RemoteKey& key) const;
  [[nodiscard]] Result<RemoteRegionState> resolve_by_nic(const RemoteKey& key) const;

  EndpointState& endpoint_;
  std::shared_ptr<AdvertisedRegions> advertised_;
  std::uint32_t last_id_ = 0;
  std::vector<Question*> questions_;
};

}  // namespace hbmwire::detail

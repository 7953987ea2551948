// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hbmwire/endpoint.hpp"
#include "hbmwire/fd.hpp"

#include "connect/late_lanes.hpp"
#include "endpoint/nic_memory.hpp"
#include "endpoint/tcp_user.hpp"
#include "transport/rdma_cm/cm_id.hpp"
#include "transport/verbs/lane.hpp"
#include "verbs/wiring.hpp"
#include "wire/endpoint_offer.hpp"

namespace hbmwire::detail {

struct EndpointState;
struct NicState;
class ReceivePool;
class ShakeTaker;
struct WorkerNic;

/// Makes the lanes of an endpoint and wires them up with the peer's lanes, by the peer's offer. If
/// the connection manager is used, it has wired up the control lane before. From connect() on the
/// endpoint belongs to its worker.
class EndpointWiring {
 public:
  explicit EndpointWiring(EndpointState& endpoint) noexcept : endpoint_(endpoint) {}

  EndpointWiring(const EndpointWiring&) = delete;
  EndpointWiring& operator=(const EndpointWiring&) = delete;
  ~EndpointWiring() = default;

  /// Makes lanes on the endpoint's NIC, rails on the `further` NICs, and message buffers, and posts
  /// receives. `late`: the control lane goes by the handshake's connection, and the other lanes are
  /// made when they are needed (LateLanes).
  Result<void> make(std::span<WorkerNic* const> further, bool late);

  /// The memory from which both lanes send messages, once it is made.
  [[nodiscard]] const Region& buffers() const noexcept { return *buffers_.region; }

  /// This end's offer to the peer. May throw std::bad_alloc.
  [[nodiscard]] wire::EndpointOffer offer() const;

  /// Wires both lanes up, or the data lane alone after wire_control(). Errors: Stage::connect.
  Result<void> connect(const wire::EndpointOffer& theirs);

  // --- if queue pairs are made late

  [[nodiscard]] LateLanes& late() noexcept { return late_; }

  [[nodiscard]] const LateLanes& late() const noexcept { return late_; }

  /// Replaces the LateLane by a queue pair. Errors: Stage::open.
  Result<void> make_data_lane();

  /// Wires up the data lane. Errors: Stage::connect.
  Result<void> wire_data(const wire::EndpointOffer& theirs);

  /// Adds the NICs of the rails to the endpoint's label, for error texts and reports. May throw
  /// std::bad_alloc.
  void label_rails();

  // --- with the connection manager

  /// Wires up the control lane alone. From here on the endpoint belongs to the worker. Errors:
  /// Stage::connect.
  Result<void> wire_control(const transport::CmPath& path);

  /// Gives the socket of the handshake to the endpoint. Errors: Stage::connect.
  Result<void> take_socket(Fd fd);

  /// The peer's hello, from connect() on.
  [[nodiscard]] std::span<const std::byte> peer_hello() const noexcept { return peer_hello_; }

  /// Sets who takes handshake bytes that come by the control lane; null: none are expected.
  void set_handshake(ShakeTaker* taker) noexcept { handshake_ = taker; }

  [[nodiscard]] ShakeTaker* handshake() const noexcept { return handshake_; }

  /// The wiring of a lane on `nic` by both ends' offers, without addresses.
  [[nodiscard]] verbs::Wiring wiring_on(const NicState& nic,
                                        const wire::EndpointOffer& theirs) const noexcept;

 private:
  /// The pools whose receives the lanes share; null: the lanes have receives of their own.
  struct SharedPools {
    ReceivePool* messages = nullptr;
    ReceivePool* control = nullptr;
  };

  struct Queues {
    transport::VerbsCompletionQueue* completions = nullptr;
    SharedPools pools;
    int places = 0;  // how many places of `completions` the lanes take
  };

  Result<Queues> queues_for(std::uint32_t requests, std::uint32_t own_receives);
  Result<SharedPools> make_nic_lanes();
  Result<SharedPools> make_late_lanes();
  Result<void> make_tcp_lanes();
  void make_link(std::uint32_t data_requests, std::uint32_t data_receives);
  [[nodiscard]] transport::LaneOptions data_lane_options(const ReceivePool* pool) const noexcept;
  Result<void> make_buffers();
  Result<void> wire_up(const wire::EndpointOffer& theirs);
  [[nodiscard]] std::optional<wire::EndpointOffer::Shares> shares() const;
  [[nodiscard]] Placement placement_of(const wire::EndpointOffer& theirs) const noexcept;
  [[nodiscard]] std::vector<std::string> rail_names() const;
  void set_label(std::vector<std::string> rails) noexcept;

  EndpointState& endpoint_;
  LateLanes late_{endpoint_};
  ReceivePool* late_messages_ = nullptr;  // for the late data lane
  ShakeTaker* handshake_ = nullptr;
  NicMemory buffers_;                               // both lanes send from it
  std::unique_ptr<EndpointTcpUser> tcp_user_;       // of EndpointState::link
  std::optional<verbs::AddressPath> managed_path_;  // of the connection manager's control lane
  std::uint32_t managed_mtu_bytes_ = 0;             // of that path
  std::vector<std::byte> peer_hello_;
};

}  // namespace hbmwire::detail

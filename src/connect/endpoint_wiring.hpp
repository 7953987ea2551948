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

/// Makes the lanes of an endpoint and wires them up with the peer's: by its offer, and before that
/// by the connection manager, where that has it. From connect() on the endpoint is its worker's.
class EndpointWiring {
 public:
  explicit EndpointWiring(EndpointState& endpoint) noexcept : endpoint_(endpoint) {}

  EndpointWiring(const EndpointWiring&) = delete;
  EndpointWiring& operator=(const EndpointWiring&) = delete;
  ~EndpointWiring() = default;

  /// Lanes on the endpoint's NIC, rails on the `further` ones, message buffers; receives are
  /// posted. `late`: the control lane goes by the handshake's connection, and the others come when
  /// they are needed (LateLanes).
  Result<void> make(std::span<WorkerNic* const> further, bool late);

  /// The memory that both lanes' messages are sent from, once it is made.
  [[nodiscard]] const Region& buffers() const noexcept { return *buffers_.region; }

  /// This end's offer to the peer. May throw std::bad_alloc.
  [[nodiscard]] wire::EndpointOffer offer() const;

  /// Wires both lanes up, or the data lane alone after wire_control(). Errors: Stage::connect.
  Result<void> connect(const wire::EndpointOffer& theirs);

  // --- where queue pairs are late

  [[nodiscard]] LateLanes& late() noexcept { return late_; }

  [[nodiscard]] const LateLanes& late() const noexcept { return late_; }

  /// Has a queue pair in place of a LateLane. Errors: Stage::open.
  Result<void> make_data_lane();

  /// Errors: Stage::connect.
  Result<void> wire_data(const wire::EndpointOffer& theirs);

  /// For error texts and reports: the NICs of the rails. May throw std::bad_alloc.
  void label_rails();

  // --- by the connection manager

  /// Wires the control lane up alone; the worker's from here on. Errors: Stage::connect.
  Result<void> wire_control(const transport::CmPath& path);

  /// The socket that the handshake went by, from here on the endpoint's. Errors: Stage::connect.
  Result<void> take_socket(Fd fd);

  /// The peer's, from connect() on.
  [[nodiscard]] std::span<const std::byte> peer_hello() const noexcept { return peer_hello_; }

  /// Takes the handshake that comes by the control lane; null: none is expected.
  void set_handshake(ShakeTaker* taker) noexcept { handshake_ = taker; }

  [[nodiscard]] ShakeTaker* handshake() const noexcept { return handshake_; }

  /// The wiring of a lane on `nic` by both ends' offers; the addresses are left open.
  [[nodiscard]] verbs::Wiring wiring_on(const NicState& nic,
                                        const wire::EndpointOffer& theirs) const noexcept;

 private:
  /// Those whose receives the lanes share; null: they have receives of their own.
  struct SharedPools {
    ReceivePool* messages = nullptr;
    ReceivePool* control = nullptr;
  };

  struct Queues {
    transport::VerbsCompletionQueue* completions = nullptr;
    SharedPools pools;
    int places = 0;  // of `completions`, that the lanes take
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
  ReceivePool* late_messages_ = nullptr;  // the late data lane's
  ShakeTaker* handshake_ = nullptr;
  NicMemory buffers_;                               // that both lanes send from
  std::unique_ptr<EndpointTcpUser> tcp_user_;       // of EndpointState::link
  std::optional<verbs::AddressPath> managed_path_;  // of the connection manager's control lane
  std::uint32_t managed_mtu_bytes_ = 0;             // of that path
  std::vector<std::byte> peer_hello_;
};

}  // namespace hbmwire::detail

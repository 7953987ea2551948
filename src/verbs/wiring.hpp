// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/nic.hpp"

namespace hbmwire::verbs {

/// A path to a peer: ibv_ah_attr of ibv_modify_qp(3), field by field.
struct AddressPath {
  std::array<std::byte, 16> gid{};
  std::uint32_t flow_label = 0;
  std::uint16_t lid = 0;
  std::uint8_t own_gid = 0;  ///< the index of this end's GID
  std::uint8_t hop_limit = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t service_level = 0;
  std::uint8_t source_path_bits = 0;
  std::uint8_t static_rate = 0;
  std::uint8_t port = 0;
  bool global = false;
};

/// A queue pair's partition, as an index in its port's table, and its longest packet.
struct PortEntries {
  std::uint16_t pkey_index = 0;
  std::uint32_t mtu_bytes = 0;
};

/// The attributes that connect the two ends of an RC connection (ibv_modify_qp(3)).
struct Wiring {
  ConnectionAddress local;
  ConnectionAddress remote;
  /// A path that was found elsewhere. Without one, the remote GID and LID are used, with the two
  /// values below.
  std::optional<AddressPath> path = {};
  std::uint8_t traffic_class = 0;
  std::uint8_t service_level = 0;
  std::uint8_t reads_out = 1;  ///< READs and atomics that this end asks for at a time
  std::uint8_t reads_in = 1;   ///< those that this end answers at a time
  /// The peer counts as gone after `retries` + 1 timeouts of 4.096 us * 2^ack_timeout without an
  /// acknowledgement. 14 is 67 ms, so seven retries notice it in half a second (IBTA
  /// 9.7.6.1.3).
  std::uint8_t ack_timeout = 14;
  std::uint8_t retries = 7;
  /// Retries for messages that found no receive; 7 means without end. Receives are posted before
  /// the peer may send, so more patience would only hide a mistake.
  std::uint8_t receiver_retries = 6;
  /// The time that the peer waits before such a retry: 12 is 0.64 ms, 28 is 164 ms
  /// (ibv_modify_qp(3), min_rnr_timer).
  std::uint8_t receiver_wait = 12;
};

}  // namespace hbmwire::verbs

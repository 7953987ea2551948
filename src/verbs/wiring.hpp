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
  std::uint8_t own_gid = 0;  ///< its index
  std::uint8_t hop_limit = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t service_level = 0;
  std::uint8_t source_path_bits = 0;
  std::uint8_t static_rate = 0;
  std::uint8_t port = 0;
  bool global = false;
};

/// A queue pair's partition, by its port's table, and its longest packet.
struct PortEntries {
  std::uint16_t pkey_index = 0;
  std::uint32_t mtu_bytes = 0;
};

/// How the two ends of an RC connection are wired (ibv_modify_qp(3)).
struct Wiring {
  ConnectionAddress local;
  ConnectionAddress remote;
  std::optional<AddressPath> path = {};  ///< as others found it; none: by the remote GID and LID,
  std::uint8_t traffic_class = 0;        ///< and with these marks
  std::uint8_t service_level = 0;
  std::uint8_t reads_out = 1;  ///< READs and atomics asked for at a time, and
  std::uint8_t reads_in = 1;   ///< answered
  /// 4.096 us * 2^ack_timeout without an acknowledgement, `retries` + 1 times, are the peer's end.
  /// 14: 67 ms, so that seven retries notice it in half a second (IBTA 9.7.6.1.3).
  std::uint8_t ack_timeout = 14;
  std::uint8_t retries = 7;
  /// For messages that found no receive; 7: without end. Where receives are posted before the peer
  /// may send, more patience would only hide a mistake.
  std::uint8_t receiver_retries = 6;
  /// How long the peer waits before such a retry: 12 is 0.64 ms, 28 is 164 ms (ibv_modify_qp(3),
  /// min_rnr_timer).
  std::uint8_t receiver_wait = 12;
};

}  // namespace hbmwire::verbs

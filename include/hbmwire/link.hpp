// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>

namespace hbmwire {

/// How the packets of a connection are marked and addressed, and how long they wait for
/// acknowledgements. The words are those of ibv_modify_qp(3). Each end decides for the packets that
/// it sends; the smaller MTU of both ends counts. For an endpoint, an option that is left open here
/// takes its value from the settings (Settings::Endpoints::link); if that is open, too, the
/// endpoint chooses.
///
/// Over TCP the traffic class and the MTU have a meaning. The MTU of the end that connects is the
/// longest segment, both ways, so that a connection works where larger packets are lost. By rdma_cm
/// the connection manager decides the route: an endpoint with a service level, a pkey index or an
/// MTU is refused there (Errc::not_supported, Stage::configure).
///
/// The GID is not an option here, but the NIC's (ContextOptions::gid_index), since memory keys name
/// NICs by their GIDs.
struct LinkOptions {
  /// 0 to 15. InfiniBand: chooses the virtual lane. RoCE: the priority in the VLAN tag. Default: 0.
  std::optional<std::uint8_t> service_level = {};

  /// The byte of the IP header (InfiniBand: of the GRH) with the DSCP in its upper six bits: DSCP
  /// 26 is 104. Default: 0; by rdma_cm the connection manager's. Over TCP only the DSCP counts,
  /// since the kernel keeps the lower two bits.
  std::optional<std::uint8_t> traffic_class = {};

  /// Index in the partition key table of the port, for each NIC that the endpoint has. Default: 0.
  std::optional<std::uint16_t> pkey_index = {};

  /// The path MTU: 256, 512, 1024, 2048 or 4096, and no more than the port's. Default: the port's.
  std::optional<std::uint32_t> mtu_bytes = {};

  /// 0 to 31: a packet is sent again after 4.096 us * 2^ack_timeout without acknowledgement; 0:
  /// never. Default of an endpoint: the longest timeout with which all tries end within half of
  /// EndpointOptions::peer_timeout, 8 to 20. Default of a Connection: 14.
  std::optional<std::uint8_t> ack_timeout = {};

  /// 0 to 7: how many more times a packet is sent before the peer counts as gone. Default: 7. All
  /// tries of an endpoint, retry_count + 1 times the ACK timeout, must take half of
  /// EndpointOptions::peer_timeout at most, so that the end of an idle peer is noticed in time,
  /// too. More is refused (Errc::invalid_argument, Stage::configure, Hint::retries_outlast).
  std::optional<std::uint8_t> retry_count = {};

  /// 0 to 6: how many more times a message is sent that finds no receive at the peer; 7: without
  /// end. Default: 6. An endpoint's control lane always has 7, since a peer that is stopped does
  /// not answer it.
  std::optional<std::uint8_t> rnr_retry = {};

  bool operator==(const LinkOptions&) const = default;
};

}  // namespace hbmwire

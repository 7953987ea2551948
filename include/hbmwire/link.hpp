// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>

namespace hbmwire {

/// How the packets of a connection are marked and addressed, and how long they wait for their
/// acknowledgements, in the words of ibv_modify_qp(3). Each end decides for what it sends; of the
/// MTU the smaller one of both ends' counts. An endpoint takes what is left open here from the
/// settings (Settings::Endpoints::link), and chooses itself what these leave open, too.
///
/// Over TCP the traffic class and the MTU have a meaning: of the end that connects, the MTU is the
/// longest segment, both ways, so that a connection holds where larger packets are lost. By rdma_cm
/// the route is the connection manager's: an endpoint with a service level, a pkey index or an MTU
/// is refused there (Errc::not_supported, Stage::configure).
///
/// The GID is the NIC's (ContextOptions::gid_index), since memory keys name NICs by their GIDs.
struct LinkOptions {
  /// 0 to 15. InfiniBand: chooses the virtual lane. RoCE: the priority in the VLAN tag. Default: 0.
  std::optional<std::uint8_t> service_level = {};

  /// The byte of the IP header (InfiniBand: of the GRH) that has the DSCP in its upper six bits:
  /// DSCP 26 is 104. Default: 0. By rdma_cm the manager's, unless it is given. Over TCP the DSCP
  /// alone counts, since the kernel keeps the lower two bits.
  std::optional<std::uint8_t> traffic_class = {};

  /// Index in the partition key table of the port, for each NIC that the endpoint has. Default: 0.
  std::optional<std::uint16_t> pkey_index = {};

  /// The path MTU: 256, 512, 1024, 2048 or 4096, and no more than the port's. Default: the port's.
  std::optional<std::uint32_t> mtu_bytes = {};

  /// 0 to 31: a packet is sent again after 4.096 us * 2^ack_timeout without acknowledgement, 0:
  /// never. Default of an endpoint: the longest with which all tries end within half of
  /// EndpointOptions::peer_timeout, 8 to 20; of a Connection: 14.
  std::optional<std::uint8_t> ack_timeout = {};

  /// 0 to 7 further tries, after which the peer is taken for gone. Default: 7. All tries of an
  /// endpoint, retry_count + 1 times the ACK timeout, take half of EndpointOptions::peer_timeout at
  /// most, so that an idle peer's end is noticed in time, too. More is refused
  /// (Errc::invalid_argument, Stage::configure, Hint::retries_outlast).
  std::optional<std::uint8_t> retry_count = {};

  /// 0 to 6 further tries of a message that finds no receive at the peer; 7: without end. Default:
  /// 6. The control lane of an endpoint, to which a peer that is stopped does not answer, always
  /// has 7.
  std::optional<std::uint8_t> rnr_retry = {};

  bool operator==(const LinkOptions&) const = default;
};

}  // namespace hbmwire

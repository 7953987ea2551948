// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/nic.hpp"

#include "base/node_id.hpp"

namespace hbmwire::wire {

inline constexpr std::uint16_t kEndpointVersion = 8;
inline constexpr const char* kOtherVersion = "the peer speaks another version of the protocol";
inline constexpr std::size_t kMaxHelloBytes = 1024;
inline constexpr std::size_t kMaxOfferBytes = 320 + kMaxHelloBytes;  ///< 320: all but the hello

/// Rails of an endpoint: the lane for its operations, and one lane on each further NIC.
inline constexpr std::size_t kMostRails = 4;

inline constexpr unsigned kSharesEndpointBits = 17;  ///< of EndpointOffer::Shares::endpoint

/// All that one end of an endpoint must tell the other to be connected. It travels by TCP, or as
/// bytes that the application carries.
struct EndpointOffer {
  ConnectionAddress data;           ///< the queue pair for the user's operations
  ConnectionAddress control;        ///< the queue pair for messages between the ends
  std::uint8_t reads_in = 1;        ///< READs and atomics that this end answers at a time
  std::uint32_t receive_depth = 1;  ///< the most messages that this end may have room for
  std::uint32_t places = 1;         ///< messages for which it has room from the start
  std::uint32_t eager_bytes = 0;    ///< the longest message that it takes without being asked
  NodeId node{};                    ///< the machine on which it runs
  /// The addresses of the lanes on further NICs, at most kMostRails - 1. Both ends pair them in
  /// this order.
  std::vector<ConnectionAddress> rails = {};
  /// Indexes in this end's NICs (ContextOptions::nics): of the data lane, and of each rail.
  std::array<std::uint8_t, kMostRails> nics{};
  std::vector<std::byte> hello = {};  ///< the application's: at most kMaxHelloBytes

  /// Tells other processes of this node where to find this one's keys (detail::SharedKeyFile), and
  /// the number of this endpoint there.
  struct Shares {
    std::uint32_t process = 0;     ///< 22 bits, like the kernel's process ids
    std::uint32_t descriptor = 0;  ///< 24 bits: the file of keys, in that process
    std::uint32_t endpoint = 0;    ///< 17 bits; 0: it uses no rings

    bool operator==(const Shares&) const = default;
  };

  std::optional<Shares> shares = {};  ///< no value: nothing is shared

  /// Whether no NIC takes part. `data` and `control` have the queue pair numbers 0 and 1 then. No
  /// connection's queue pair has these: they are a port's own, for management.
  [[nodiscard]] bool over_tcp() const noexcept { return data.queue_pair == 0; }

  /// Whether its queue pairs are made later (wire::QueuePairs). Until then `data` and `control`
  /// have the numbers 1 and 0.
  [[nodiscard]] bool is_late() const noexcept {
    return data.queue_pair == 1 && control.queue_pair == 0;
  }

  bool operator==(const EndpointOffer&) const = default;
};

[[nodiscard]] std::vector<std::byte> encode(const EndpointOffer& offer);

/// Errors: Errc::protocol, Stage::connect.
[[nodiscard]] Result<EndpointOffer> decode_offer(std::span<const std::byte> bytes);

}  // namespace hbmwire::wire

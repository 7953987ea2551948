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
inline constexpr std::size_t kMaxOfferBytes = 320 + kMaxHelloBytes;

/// Of an endpoint: the lane of its operations, and one on each further NIC.
inline constexpr std::size_t kMostRails = 4;

inline constexpr unsigned kSharesEndpointBits = 17;  ///< of EndpointOffer::Shares::endpoint

/// What one end of an endpoint tells the other, to be connected: by TCP, or in bytes that the
/// application carries.
struct EndpointOffer {
  ConnectionAddress data;           ///< of the queue pair of the user's operations
  ConnectionAddress control;        ///< of the one by which the ends look after each other
  std::uint8_t reads_in = 1;        ///< READs and atomics that this end answers at a time
  std::uint32_t receive_depth = 1;  ///< messages that this end may have room for
  std::uint32_t places = 1;         ///< those of them that it has room for from the start
  std::uint32_t eager_bytes = 0;    ///< of a message that it takes without being asked
  NodeId node{};                    ///< where it runs
  /// Of the lanes on further NICs, kMostRails - 1 at most; both ends' go together in this order.
  std::vector<ConnectionAddress> rails = {};
  /// Places among this end's NICs (ContextOptions::nics): the data lane's, and each rail's.
  std::array<std::uint8_t, kMostRails> nics{};
  std::vector<std::byte> hello = {};  ///< the application's: kMaxHelloBytes at most

  /// Where other processes of this node find the keys of this one (detail::SharedKeyFile), and the
  /// number of this endpoint there.
  struct Shares {
    std::uint32_t process = 0;     ///< 22 bits, as the kernel's ids have
    std::uint32_t descriptor = 0;  ///< 24 bits: of that process, the file of keys
    std::uint32_t endpoint = 0;    ///< 17 bits; 0: it has no part in rings

    bool operator==(const Shares&) const = default;
  };

  std::optional<Shares> shares = {};  ///< none: nothing

  /// No NIC takes part: by the numbers 0 and 1, which no connection's queue pair has (they are a
  /// port's own, for management).
  [[nodiscard]] bool over_tcp() const noexcept { return data.queue_pair == 0; }

  /// Its queue pairs are made later (wire::QueuePairs); until then these numbers stand for them.
  [[nodiscard]] bool is_late() const noexcept {
    return data.queue_pair == 1 && control.queue_pair == 0;
  }

  bool operator==(const EndpointOffer&) const = default;
};

[[nodiscard]] std::vector<std::byte> encode(const EndpointOffer& offer);

/// Errors: Errc::protocol, Stage::connect.
[[nodiscard]] Result<EndpointOffer> decode_offer(std::span<const std::byte> bytes);

}  // namespace hbmwire::wire

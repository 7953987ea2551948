// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "hbmwire/error.hpp"
#include "hbmwire/group.hpp"

/// Messages between the ranks of a group and its meeting point, one for each send, and the hellos
/// by which ranks name themselves in the handshakes of endpoints (EndpointOptions::hello).
namespace hbmwire::wire {

inline constexpr std::uint16_t kGroupVersion = 1;
inline constexpr std::uint32_t kMostRanks = 4096;
inline constexpr std::size_t kMostGroupAddresses = 16;  ///< of one rank
inline constexpr std::size_t kMostRankBytes = std::size_t{1} << 20U;
inline constexpr std::size_t kMostGroupBytes = std::size_t{256} << 20U;  ///< of all ranks together

/// To the meeting point, in the handshake.
struct GroupHello {
  std::uint32_t size = 1;
  std::optional<std::uint32_t> rank = {};  ///< none: the meeting point is to give one
  bool operator==(const GroupHello&) const = default;
};

/// From one rank to another, in the handshake of their endpoint.
struct PeerHello {
  std::uint64_t group = 0;  ///< Joined::group
  std::uint32_t rank = 0;   ///< of the sender
  std::uint8_t use = 0;     ///< one endpoint for each use
  bool operator==(const PeerHello&) const = default;
};

/// A rank is there, and waits for all others.
struct Join {
  std::uint32_t epoch = 0;  ///< the epoch that the rank was in before; 0: none
  GroupMember member;       ///< its rank does not count
};

/// All ranks are there.
struct Joined {
  std::uint64_t group = 0;  ///< a random number of this epoch
  std::uint32_t epoch = 0;  ///< 1: the first
  std::uint32_t rank = 0;   ///< of the receiver
  std::vector<GroupMember> members;
};

/// Ranks that have not come yet, for one that waits.
struct Missing {
  std::vector<std::uint32_t> ranks;
  bool operator==(const Missing&) const = default;
};

/// A rank's part of an exchange.
struct Give {
  std::uint32_t call = 0;      ///< number of the call within the epoch, from 1 on
  bool among_present = false;  ///< ranks that have gone are left out
  std::uint32_t patience_ms = 0;
  std::vector<std::byte> bytes;
  bool operator==(const Give&) const = default;
};

/// The bytes that all ranks have given.
struct Given {
  std::uint32_t call = 0;
  std::vector<std::optional<std::vector<std::byte>>> bytes;
  bool operator==(const Given&) const = default;
};

/// All ranks of this epoch that have gone.
struct Gone {
  std::vector<std::uint32_t> ranks;
  bool operator==(const Gone&) const = default;
};

/// A rank ends, as it was meant to.
struct Leave {
  bool operator==(const Leave&) const = default;
};

/// Why a rank has no part in the group; its connection is closed.
struct Refused {
  enum class Why : std::uint8_t {
    other_size = 1,   ///< the ranks do not agree on the size
    rank_taken = 2,   ///< another process has the rank
    full = 3,         ///< all ranks are taken
    out_of_turn = 4,  ///< the ranks are in different calls
    too_much = 5,     ///< more bytes than an exchange may have
  };
  Why why = Why::full;
  bool operator==(const Refused&) const = default;
};

using GroupMessage = std::variant<Join, Joined, Missing, Give, Given, Gone, Leave, Refused>;

/// A rank's part of the exchange that begins a broadcast.
struct BroadcastOffer {
  std::uint64_t length_bytes = 0;
  std::uint64_t piece_bytes = 0;
  std::uint32_t root = 0;
  bool verify = true;
  std::vector<std::byte> key;  ///< a memory key's bytes; empty: of the root, or no bytes
  bool operator==(const BroadcastOffer&) const = default;
};

/// A rank's part of the exchange that ends a broadcast.
struct BroadcastEnd {
  enum class State : std::uint8_t {
    done = 1,
    failed = 2,       ///< this rank, or its way to the next one
    not_reached = 3,  ///< the bytes stopped coming
  };
  State state = State::done;
  std::array<std::uint8_t, 32> digest{};  ///< BLAKE2b of its memory; zeros if none was asked for
  bool operator==(const BroadcastEnd&) const = default;
};

/// The longest message of a rank. A GroupMember, or an exchange without its bytes, is shorter than
/// 16384.
inline constexpr std::size_t kMostToMeetingPoint = kMostRankBytes + 16384;

/// The longest message to a rank. A GroupMember is shorter than 8192 bytes.
inline constexpr std::size_t kMostFromMeetingPoint =
    kMostGroupBytes + 8192 * std::size_t{kMostRanks};

[[nodiscard]] std::vector<std::byte> encode(const GroupMessage& message);
[[nodiscard]] std::vector<std::byte> encode(const GroupHello& hello);
[[nodiscard]] std::vector<std::byte> encode(const PeerHello& hello);
[[nodiscard]] std::vector<std::byte> encode(const BroadcastOffer& offer);
[[nodiscard]] std::vector<std::byte> encode(const BroadcastEnd& end);

/// Errors: Errc::protocol, Stage::complete.
[[nodiscard]] Result<GroupMessage> decode_group(std::span<const std::byte> bytes);
[[nodiscard]] Result<BroadcastOffer> decode_broadcast_offer(std::span<const std::byte> bytes);
[[nodiscard]] Result<BroadcastEnd> decode_broadcast_end(std::span<const std::byte> bytes);

/// No value: the bytes are no such hello, or one of another version.
[[nodiscard]] std::optional<GroupHello> decode_group_hello(std::span<const std::byte> bytes);
[[nodiscard]] std::optional<PeerHello> decode_peer_hello(std::span<const std::byte> bytes);

}  // namespace hbmwire::wire

// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "hbmwire/error.hpp"
#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"

/// The messages between the two ends of an endpoint on its control lane. Each is one SEND
/// (docs/endpoint-protocol.md).
namespace hbmwire::wire {

inline constexpr std::size_t kMaxRegionName = 255;
inline constexpr std::size_t kMaxControlBytes = 2048;  ///< a memory key of 64 NICs is shorter

/// The first message in each direction between ends that were connected by invitations. It shows
/// that the lane works, and proves that its sender is the end that was invited
/// (wire/invitation.hpp).
struct Probe {
  std::array<std::uint8_t, 32> proof{};
  bool operator==(const Probe&) const = default;
};

/// Asks the peer to close its data lane and to confirm: nothing that this end has asked for may
/// move a byte any more.
struct Fence {
  bool operator==(const Fence&) const = default;
};

/// The data lane is closed on this side.
struct Fenced {
  bool operator==(const Fenced&) const = default;
};

/// This end has nothing under way, and closes.
struct Farewell {
  bool operator==(const Farewell&) const = default;
};

/// Asks for the memory that is advertised by this name.
struct LookUp {
  std::uint32_t id = 0;
  std::string name;
  bool operator==(const LookUp&) const = default;
};

/// The bytes of the memory key; empty: the name is unknown.
struct Found {
  std::uint32_t id = 0;
  std::vector<std::byte> key;
  bool operator==(const Found&) const = default;
};

/// Bytes of a handshake (wire/handshake.hpp) that goes by this lane.
struct Shake {
  std::vector<std::byte> bytes;
  bool operator==(const Shake&) const = default;
};

inline constexpr std::size_t kMaxShakeBytes = 1536;  ///< an offer, with a hello and its proof

/// This rail has failed, and is closed on this side: the peer must close it, too, and confirm. The
/// number is that in EndpointOffer::rails, from 1 on.
struct RailDown {
  std::uint8_t rail = 1;
  bool operator==(const RailDown&) const = default;
};

/// The rail is closed on this side: it moves nothing any more.
struct RailClosed {
  std::uint8_t rail = 1;
  bool operator==(const RailClosed&) const = default;
};

/// Asks the exporter of the memory with this token to copy. It opens the sender's memory (`handle`,
/// of `handle.length_bytes`), and copies between the two with its device's engine, or with its CPU
/// between host memories. An end has at most one such request under way.
struct IpcCopy {
  std::uint32_t id = 0;
  bool put = true;            ///< into the exported memory; else out of it
  std::uint64_t token = 0;    ///< never 0
  std::uint64_t address = 0;  ///< in the exported memory
  IpcHandle handle = {};
  bool operator==(const IpcCopy&) const = default;
};

/// The result of IpcCopy. From now on neither memory is touched for it, and the sender's is no
/// longer open.
struct IpcCopied {
  enum class Outcome : std::uint8_t {
    copied = 0,
    unopened = 1,  ///< the sender's memory could not be opened, or the policy excludes it
    denied = 2,    ///< no key of the receiver allows it
    failed = 3,    ///< the engine refused it, or failed
  };

  std::uint32_t id = 0;
  Outcome outcome = Outcome::copied;
  bool operator==(const IpcCopied&) const = default;
};

/// Lets the receiver map this end's pieces (SharedPieces), whose addresses this end's requests on
/// the data lane name. Sent once for each endpoint, between ends on one machine.
struct SharePieces {
  std::uint64_t address = 0;  ///< address of the pieces in the sender's process
  IpcHandle handle = {};
  bool operator==(const SharePieces&) const = default;
};

/// Whether the receiver of SharePieces, whose process moves the pieces, has mapped them.
struct PiecesShared {
  bool mapped = false;
  bool operator==(const PiecesShared&) const = default;
};

/// Between ends that were connected without queue pairs: the sender's queue pairs are made, and
/// this is their offer (wire/endpoint_offer.hpp). Once in each direction.
struct QueuePairs {
  std::vector<std::byte> offer;
  bool operator==(const QueuePairs&) const = default;
};

/// The sender's queue pairs are connected with the receiver's, and can receive.
struct QueuePairsReady {
  bool operator==(const QueuePairsReady&) const = default;
};

using ControlMessage =
    std::variant<Probe, Fence, Fenced, Farewell, LookUp, Found, Shake, RailDown, RailClosed,
                 IpcCopy, IpcCopied, SharePieces, PiecesShared, QueuePairs, QueuePairsReady>;

/// Returns at most kMaxControlBytes.
[[nodiscard]] std::vector<std::byte> encode(const ControlMessage& message);

/// Errors: Errc::protocol, Stage::complete.
[[nodiscard]] Result<ControlMessage> decode_control(std::span<const std::byte> bytes);

}  // namespace hbmwire::wire

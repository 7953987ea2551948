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

/// What the ends of an endpoint say to each other over its control lane, one message a SEND:
/// docs/endpoint-protocol.md.
namespace hbmwire::wire {

inline constexpr std::size_t kMaxRegionName = 255;
inline constexpr std::size_t kMaxControlBytes = 2048;  ///< a memory key of 64 NICs is shorter

/// Both ways, first, between ends that were connected by invitations: that this end can be sent
/// to, and is the one that was invited (wire/invitation.hpp).
struct Probe {
  std::array<std::uint8_t, 32> proof{};
  bool operator==(const Probe&) const = default;
};

/// "Close your data lane, and say so": nothing that this end asked for may move a byte any more.
struct Fence {
  bool operator==(const Fence&) const = default;
};

/// The data lane is closed, on this side.
struct Fenced {
  bool operator==(const Fenced&) const = default;
};

/// This end has nothing under way, and ends.
struct Farewell {
  bool operator==(const Farewell&) const = default;
};

/// Which memory is advertised by this name?
struct LookUp {
  std::uint32_t id = 0;
  std::string name;
  bool operator==(const LookUp&) const = default;
};

/// A memory key's bytes; none: there is no such name.
struct Found {
  std::uint32_t id = 0;
  std::vector<std::byte> key;
  bool operator==(const Found&) const = default;
};

/// Bytes of a handshake (wire/handshake.hpp), where it goes by this lane.
struct Shake {
  std::vector<std::byte> bytes;
  bool operator==(const Shake&) const = default;
};

inline constexpr std::size_t kMaxShakeBytes = 1536;  ///< an offer, with a hello and its proof

/// "This rail has failed, and is closed on my side: close it, and say so". Of EndpointOffer::rails
/// from 1 on.
struct RailDown {
  std::uint8_t rail = 1;
  bool operator==(const RailDown&) const = default;
};

/// The rail is closed on this side: nothing moves by it any more.
struct RailClosed {
  std::uint8_t rail = 1;
  bool operator==(const RailClosed&) const = default;
};

/// To who exported memory by the token: open this end's (`handle`, of `handle.length_bytes`) and
/// have your device's engine copy between the two, or between host memories your CPU. An end asks
/// for one at a time.
struct IpcCopy {
  std::uint32_t id = 0;
  bool put = true;            ///< into the exported memory; else out of it
  std::uint64_t token = 0;    ///< never 0
  std::uint64_t address = 0;  ///< where in the exported memory
  IpcHandle handle = {};
  bool operator==(const IpcCopy&) const = default;
};

/// How it went. Neither of the two memories is touched for it any more, nor is the asker's open.
struct IpcCopied {
  enum class Outcome : std::uint8_t {
    copied = 0,
    unopened = 1,  ///< the asker's memory could not be opened, or the policy excludes it
    denied = 2,    ///< no key of its receiver's allows it
    failed = 3,    ///< the engine refused it, or failed
  };

  std::uint32_t id = 0;
  Outcome outcome = Outcome::copied;
  bool operator==(const IpcCopied&) const = default;
};

/// "Pieces of mine, which I name in questions on the data lane, are this memory: map it". Once an
/// endpoint, between ends on one machine.
struct SharePieces {
  std::uint64_t address = 0;  ///< where this end has them
  IpcHandle handle = {};
  bool operator==(const SharePieces&) const = default;
};

/// Whether its receiver, whose process moves them, has them mapped.
struct PiecesShared {
  bool mapped = false;
  bool operator==(const PiecesShared&) const = default;
};

/// Between ends that were connected without queue pairs: this end's are made, as its offer says
/// (wire/endpoint_offer.hpp). Once each way.
struct QueuePairs {
  std::vector<std::byte> offer;
  bool operator==(const QueuePairs&) const = default;
};

/// Those of its sender are wired up with its receiver's: they take what comes.
struct QueuePairsReady {
  bool operator==(const QueuePairsReady&) const = default;
};

using ControlMessage =
    std::variant<Probe, Fence, Fenced, Farewell, LookUp, Found, Shake, RailDown, RailClosed,
                 IpcCopy, IpcCopied, SharePieces, PiecesShared, QueuePairs, QueuePairsReady>;

/// At most kMaxControlBytes.
[[nodiscard]] std::vector<std::byte> encode(const ControlMessage& message);

/// Errors: Errc::protocol, Stage::complete.
[[nodiscard]] Result<ControlMessage> decode_control(std::span<const std::byte> bytes);

}  // namespace hbmwire::wire

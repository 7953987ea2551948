// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "scenario.hpp"

namespace hbmwire::test {

/// The length of a slot: with several NICs (HBMWIRE_NICS) enough for a piece on each of them, and
/// by shared memory more than is copied within a call.
inline const std::uint64_t kSlotBytes = has_rails()       ? 192U << 10U
                                        : shares_memory() ? 32U << 10U
                                                          : 4096U;
inline constexpr std::uint64_t kSlots = 64;               // the first one is of the atomics
inline constexpr std::uint64_t kInboxSlots = 2 * kSlots;  // plain messages, tagged ones
inline constexpr std::uint64_t kGuardBytes = 65536;

// Time that a busy machine may need besides.
inline constexpr std::chrono::seconds kSlack{8};

/// Memory of the plan that both processes see, so that what a dead peer's NIC writes is seen, too.
struct Shared {
  int file = -1;                ///< a memfd, open for as long as this process lives
  std::span<std::byte> all;     ///< guard, target, guard, inbox, guard
  std::span<std::byte> target;  ///< registered by the peer, and open to the other
  std::span<std::byte> inbox;   ///< registered by the peer, for messages
};

/// A plan's requests to the peer: all that its program is told, so that it may be of another
/// commit.
struct PeerPlan {
  unsigned peer_timeout_ms = 0;
  bool inbox_is_open = false;  ///< large messages may be written there
  bool calls_fail = false;     ///< so that it may fail as well
  /// Target and inbox are memory of its own, which others map (HostMemoryOptions::shared): it tells
  /// by which descriptors, and the other process has them in place of Shared's.
  bool has_shared_memory = false;
};

/// The process that connects, works and checks. 0: every promise was kept. `program` is run as the
/// peer: `program --peer COMMANDS MEMORY PEER_TIMEOUT_MS INBOX_IS_OPEN CALLS_FAIL [shared]`, of
/// which the first two are descriptors.
int run_subject(std::uint64_t seed, const Shared& shared, const char* program);

/// The one that listens, until `commands` ends. 0: nothing leaked.
int run_peer(const PeerPlan& plan, const Shared& shared, int commands);

}  // namespace hbmwire::test

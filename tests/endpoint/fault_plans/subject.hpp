// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "scenario.hpp"

namespace hbmwire::test {

/// The length of a slot. With several NICs (HBMWIRE_NICS) each of them gets a piece. With shared
/// memory it exceeds the amount copied within one call.
inline const std::uint64_t kSlotBytes = has_rails()       ? 192U << 10U
                                        : shares_memory() ? 32U << 10U
                                                          : 4096U;
inline constexpr std::uint64_t kSlots = 64;               // the first one is for atomics
inline constexpr std::uint64_t kInboxSlots = 2 * kSlots;  // for plain messages and tagged ones
inline constexpr std::uint64_t kGuardBytes = 65536;

// Extra time for a busy machine.
inline constexpr std::chrono::seconds kSlack{8};

/// Memory of the plan that both processes map. It shows even writes by the NIC of a dead peer.
struct Shared {
  int file = -1;                ///< a memfd, open until this process ends
  std::span<std::byte> all;     ///< guard, target, guard, inbox, guard
  std::span<std::byte> target;  ///< registered by the peer, and open to the other side
  std::span<std::byte> inbox;   ///< registered by the peer, for messages
};

/// The parameters of the peer's process: everything that its program gets, so it may come from
/// another commit.
struct PeerPlan {
  unsigned peer_timeout_ms = 0;
  bool inbox_is_open = false;  ///< large messages may be written into the inbox directly
  bool calls_fail = false;     ///< calls of its NIC fail, so it may fail, too
  /// Target and inbox are the peer's own memory, which others can map (HostMemoryOptions::shared).
  /// It sends their descriptors, and the other process uses them instead of those in Shared.
  bool has_shared_memory = false;
};

/// Runs the process that connects, works and checks. Returns 0 if every promise was kept. Runs
/// `program` as the peer: `program --peer COMMANDS MEMORY PEER_TIMEOUT_MS INBOX_IS_OPEN CALLS_FAIL
/// [shared]`, of which the first two are descriptors.
int run_subject(std::uint64_t seed, const Shared& shared, const char* program);

/// Runs the process that listens until `commands` is closed. Returns 0 if nothing leaked.
int run_peer(const PeerPlan& plan, const Shared& shared, int commands);

}  // namespace hbmwire::test

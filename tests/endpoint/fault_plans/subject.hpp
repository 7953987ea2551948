// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "scenario.hpp"

namespace hbmwire::test {

/// Of a slot: with several NICs (HBMWIRE_NICS) enough for a piece on each of them.
inline const std::uint64_t kSlotBytes = has_rails() ? 192U << 10U : 4096U;
inline constexpr std::uint64_t kSlots = 64;               // the first one is of the atomics
inline constexpr std::uint64_t kInboxSlots = 2 * kSlots;  // plain messages, tagged ones
inline constexpr std::uint64_t kGuardBytes = 65536;

// What a busy machine may take besides.
inline constexpr std::chrono::seconds kSlack{8};

/// Memory of the plan that both processes see, so that what a dead peer's NIC writes is seen, too.
struct Shared {
  std::span<std::byte> all;     ///< guard, target, guard, inbox, guard
  std::span<std::byte> target;  ///< registered by the peer, and open to the other
  std::span<std::byte> inbox;   ///< registered by the peer, for messages
};

/// The process that connects, works and checks. 0: every promise was kept.
int run_subject(std::uint64_t seed, const Shared& shared);

/// The one that listens, until `commands` ends. 0: nothing leaked.
int run_peer(const Scenario& scenario, const Shared& shared, int commands);

}  // namespace hbmwire::test

// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "emulation/tests/nic/endpoint.hpp"

namespace hbmwire::test {

inline constexpr std::size_t kWorkers = 6;

/// The facts that one side of a session tells the other. Only the telling side writes it.
struct Mailbox {
  std::atomic<std::uint64_t> id;  // of the session; 0: there is none, and the rest is invalid
  std::atomic<std::uint64_t> connected_to;  // the id of the session that this one has connected to
  Address address;
};

/// Memory that the supervisor and all workers share.
struct Board {
  std::array<std::array<Mailbox, kWorkers>, kWorkers> mail;  // [from][to]
  std::atomic<std::uint64_t> last_id;
  std::atomic<bool> stop;
  // Counts of work, to notice a storm that does nothing.
  std::atomic<std::uint64_t> sessions, messages, verified, failures_seen, connections;
};

/// Runs worker `self` until the end of the storm. Returns the process's exit status.
int run_worker(Board& board, std::size_t self, std::uint64_t seed);

}  // namespace hbmwire::test

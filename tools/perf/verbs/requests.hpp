// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "tools/perf/contents.hpp"
#include "tools/perf/engine.hpp"
#include "tools/perf/verbs/traffic.hpp"

namespace hbmwire::tools::perf {

/// Builds the requests of every lane, for messages of the slots' size.
Outcome<void> build_requests(const Work& work, Lanes& lanes, const wire::PerfQueues& peer,
                             const Slots& sent, const Slots& received);

/// Prepares a lane for one message at a time: its first request uses the first slot, and has its
/// own completion. `by_immediate`: a WRITE that the receiver sees by its completion.
void single_out(const PerfRequest& request, Lane& lane, const Slots& sent, bool by_immediate);

/// Restores the opcode that single_out() may have changed. Sender sets addresses and flags anew.
void rejoin(const PerfRequest& request, Lane& lane);

/// The number of receives that one call posts again.
[[nodiscard]] std::uint32_t receive_grain(const PerfRequest& request) noexcept;

/// The number of received messages after which the sender gets a credit.
[[nodiscard]] std::uint32_t credit_grain(const PerfRequest& request) noexcept;

/// A pass, and the number of messages that each lane sent in it.
struct AtomicPass {
  std::uint32_t pass = 0;
  std::uint64_t messages = 0;
};

/// Writes the words for compare-and-swap, after the targets were filled.
Outcome<void> lay_out_words(const Work& work, Contents& contents, const Slots& slots);

/// Compares the results of atomics in this side's memory: words that the peer changed, and values
/// that its own requests returned.
Outcome<void> compare_atomics(const Work& work, Contents& contents, const Slots& slots,
                              const AtomicPass& pass, Verification& found);

}  // namespace hbmwire::tools::perf

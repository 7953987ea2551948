// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "tools/perf/contents.hpp"
#include "tools/perf/engine.hpp"
#include "tools/perf/verbs/traffic.hpp"

namespace hbmwire::tools::perf {

/// The requests of every lane, for messages of the slots' size.
Outcome<void> build_requests(const Work& work, Lanes& lanes, const wire::PerfQueues& peer,
                             const Slots& sent, const Slots& received);

/// A lane's first request at the first slot, with a completion of its own, for one message at a
/// time; `by_immediate`: a WRITE that the receiver sees by its completion.
void single_out(const PerfRequest& request, Lane& lane, const Slots& sent, bool by_immediate);

/// As it was.
void rejoin(const PerfRequest& request, Lane& lane);

/// As many receives are posted anew by one call.
[[nodiscard]] std::uint32_t receive_grain(const PerfRequest& request) noexcept;

/// The sender learns so often what has been taken.
[[nodiscard]] std::uint32_t credit_grain(const PerfRequest& request) noexcept;

/// A pass, and how many messages of it each lane sent.
struct AtomicPass {
  std::uint32_t pass = 0;
  std::uint64_t messages = 0;
};

/// Words to compare and swap, after the targets were filled.
Outcome<void> lay_out_words(const Work& work, Contents& contents, const Slots& slots);

/// What atomics left in this side's memory: words that the peer changed, and results of its own.
Outcome<void> compare_atomics(const Work& work, Contents& contents, const Slots& slots,
                              const AtomicPass& pass, Verification& found);

}  // namespace hbmwire::tools::perf

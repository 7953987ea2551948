// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "tools/perf/contents.hpp"
#include "tools/perf/engine.hpp"
#include "tools/perf/verbs/traffic.hpp"

namespace hbmwire::tools::perf {

/// The requests of every lane, for messages of the slots' size.
Outcome<void> build_requests(const Work& work, Lanes& lanes, const wire::PerfQueues& peer,
                             const Slots& sent, const Slots& received, bool by_immediate);

/// Each lane's first request back at the first slot, with a completion of its own.
void restore_requests(Lanes& lanes, const Slots& sent, bool one_sided);

/// As many receives are posted anew by one call.
[[nodiscard]] std::uint32_t receive_grain(const PerfRequest& request) noexcept;

[[nodiscard]] Pace pace_of(const PerfRequest& request, std::uint64_t size_bytes,
                           double ns_per_tick) noexcept;

/// A pass, and how many messages of it each lane sent.
struct AtomicPass {
  std::uint32_t pass = 0;
  std::uint64_t messages = 0;
};

/// What atomics left in this side's memory: words that the peer changed, and results of its own.
Outcome<void> compare_atomics(const Work& work, Contents& contents, const Slots& slots,
                              const AtomicPass& pass, Verification& found);

}  // namespace hbmwire::tools::perf

// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/perf/contents.hpp"
#include "tools/perf/cpu_meter.hpp"
#include "tools/perf/engine.hpp"
#include "tools/perf/statistics.hpp"

/// What both engines do around a pass, however they move messages.
namespace hbmwire::tools::perf {

/// What one side saw of a pass.
struct PassResult {
  std::uint64_t messages = 0;  ///< started, and complete
  std::uint64_t arrivals = 0;
  std::uint64_t wrong_sizes = 0;  ///< of these
  std::uint64_t ticks = 0;  ///< from before the first was started until after the last was complete
  std::string path = {};    ///< of the first, describe(TransferReport); empty on verbs
};

/// The pattern of what this side sends (`own`), or of what the peer does.
void set_pattern(Contents& contents, const Work& work, bool own, std::uint32_t pass);

/// Every slot of every queue pair, each message where it was taken from, in the other half.
/// Ascending.
[[nodiscard]] std::vector<Expected> all_slots(const Layout& layout, const Slots& slots);

/// Says so when other messages arrived than were sent. `expected`: how many; nothing where a pass
/// has no arrivals to count. What was found first stays.
void note_arrivals(const PassResult& pass, std::optional<std::uint64_t> expected,
                   Verification& found);

/// Of messages of `size_bytes`; `posts` and `completions` are the marks of the pass.
[[nodiscard]] Bandwidth bandwidth_of(const PassResult& pass, std::uint64_t size_bytes,
                                     const Marks& posts, const Marks& completions,
                                     double ns_per_tick);

/// The last byte of what arrives, and of what is sent, in host memory: where the CPU sees that a
/// message has come, one at a time.
struct LastBytes {
  volatile std::uint8_t* ping = nullptr;
  volatile std::uint8_t* pong = nullptr;
};

/// Of the first queue pair's first slot.
[[nodiscard]] LastBytes last_bytes(const MemorySide& side, const Slots& slots);

/// Meets the peer after the timed part. What this side spent on it; a side that only waits for the
/// peer (`waits`) spends until they meet.
Outcome<CpuUse> end_timed(Work& work, const CpuMeter& meter, bool waits);

}  // namespace hbmwire::tools::perf

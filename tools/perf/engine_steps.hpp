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

/// The steps around a pass that both engines share.
namespace hbmwire::tools::perf {

/// The result of a pass on one side.
struct PassResult {
  std::uint64_t messages = 0;  ///< started and completed
  std::uint64_t arrivals = 0;
  std::uint64_t wrong_sizes = 0;  ///< arrivals with a wrong size
  std::uint64_t ticks = 0;        ///< from before the first start until after the last completion
  std::string path = {};  ///< path of the first transfer, from describe(TransferReport); empty on
                          ///< verbs
};

/// Sets the pattern of this side's messages (`own`), or of the peer's.
void set_pattern(Contents& contents, const Work& work, bool own, std::uint32_t pass);

/// The places of all slots of all queue pairs, ascending. Each message arrives in the other half at
/// the place that it came from.
[[nodiscard]] std::vector<Expected> all_slots(const Layout& layout, const Slots& slots);

/// Records a fault if the number of arrivals is wrong. `expected`: the number of messages; empty if
/// a pass has no arrivals to count. An earlier fault stays.
void note_arrivals(const PassResult& pass, std::optional<std::uint64_t> expected,
                   Verification& found);

/// The bandwidth with messages of `size_bytes`; `posts` and `completions` are the marks of the
/// pass.
[[nodiscard]] Bandwidth bandwidth_of(const PassResult& pass, std::uint64_t size_bytes,
                                     const Marks& posts, const Marks& completions,
                                     double ns_per_tick);

/// The last bytes of the received and of the sent message in host memory. The CPU polls `ping` to
/// see that a message has arrived. Only for one message at a time.
struct LastBytes {
  volatile std::uint8_t* ping = nullptr;  ///< of the received message
  volatile std::uint8_t* pong = nullptr;  ///< of the sent message
};

/// The last bytes of the first slot of the first queue pair, in both halves.
[[nodiscard]] LastBytes last_bytes(const MemorySide& side, const Slots& slots);

/// Meets the peer after the timed part. Returns the CPU time that this side used; if it only waits
/// for the peer (`waits`), the measurement continues until they meet.
Outcome<CpuUse> end_timed(Work& work, const CpuMeter& meter, bool waits);

}  // namespace hbmwire::tools::perf

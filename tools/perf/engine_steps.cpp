// SPDX-License-Identifier: MIT
#include "tools/perf/engine_steps.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace hbmwire::tools::perf {

void set_pattern(Contents& contents, const Work& work, bool own, std::uint32_t pass) {
  const bool of_client = own == work.is_client();
  // The two sides' messages differ, so that neither is taken for the other's.
  contents.set_pattern(work.request.seed + (of_client ? 1 : 0), pass);
}

std::vector<Expected> all_slots(const Layout& layout, const Slots& slots) {
  std::vector<Expected> places;
  for (std::uint32_t lane = 0; lane < layout.queue_pairs; ++lane) {
    for (const std::uint64_t offset : slots.offsets) {
      places.push_back({.at = layout.target(lane) + offset,
                        .from = layout.source(lane) + offset,
                        .size_bytes = slots.size_bytes});
    }
  }
  std::ranges::sort(places, {}, &Expected::at);
  return places;
}

void note_arrivals(const PassResult& pass, std::optional<std::uint64_t> expected,
                   Verification& found) {
  if (!found.problem.empty()) return;
  if (expected && pass.arrivals != *expected) {
    found.problem = fmt::format("verify: {} of {} messages arrived", pass.arrivals, *expected);
  } else if (pass.wrong_sizes != 0) {
    found.problem =
        fmt::format("verify: {} of {} messages had another size", pass.wrong_sizes, pass.arrivals);
  }
}

Bandwidth bandwidth_of(const PassResult& pass, std::uint64_t size_bytes, const Marks& posts,
                       const Marks& completions, double ns_per_tick) {
  return bandwidth_of(pass.messages, size_bytes, static_cast<double>(pass.ticks) * ns_per_tick,
                      peak_rate(posts.kept(), completions.kept()) / ns_per_tick,
                      noise_of(posts.kept(), completions.kept()));
}

LastBytes last_bytes(const MemorySide& side, const Slots& slots) {
  auto* const memory = reinterpret_cast<std::uint8_t*>(side.host_address());
  const std::uint64_t last = slots.offsets.front() + slots.size_bytes - 1;
  return {.ping = memory + side.layout.target(0) + last,
          .pong = memory + side.layout.source(0) + last};
}

Outcome<CpuUse> end_timed(Work& work, const CpuMeter& meter, bool waits) {
  CpuUse use;
  if (!waits) use = meter.use();
  HBMWIRE_TRY(work.meet());
  if (waits) use = meter.use();
  return use;
}

}  // namespace hbmwire::tools::perf

// SPDX-License-Identifier: MIT
#include "tools/perf/verdict.hpp"

#include <fmt/format.h>

#include <string_view>

#include "tools/common/text.hpp"

namespace hbmwire::tools::perf {
namespace {

// The two measurements are some milliseconds apart, and may differ by this factor. Above it the
// measured limit is invalid.
constexpr double kMostShare = 1.05;

void take_least(std::optional<Limit>& least, const Side& side, std::string_view where) {
  for (const Limit& limit : side.limits) {
    if (limit.bytes_per_second <= 0) continue;
    if (least && least->bytes_per_second <= limit.bytes_per_second) continue;
    least = limit;
    least->what = fmt::format("the {} {}", limit.what, where);
  }
}

std::optional<Limit> limit_of(const RunResult& run, const Row& row) {
  std::optional<Limit> limit;
  if (run.emulated) {
    if (row.memcpy_bytes_per_second <= 0) return std::nullopt;
    limit = Limit{.kind = Limit::Kind::memcpy,
                  .bytes_per_second = row.memcpy_bytes_per_second,
                  .what = "one memcpy by one CPU"};
  } else {
    take_least(limit, run.local, "here");
    take_least(limit, run.remote, "there");
  }
  if (limit && run.bidirectional) {
    limit->bytes_per_second *= 2;
    limit->what += ", in both directions";
  }
  return limit;
}

double reached_by(const Row& row) {
  if (!row.is_trusted()) return 0;
  if (row.bandwidth) return row.bandwidth->average_bytes_per_second;
  if (!row.latency || row.latency->typical_ns <= 0) return 0;
  return static_cast<double>(row.size_bytes) / row.latency->typical_ns * 1e9;
}

}  // namespace

Judgement judge(const RunResult& run) {
  std::optional<Verdict> best;
  bool has_figure = false;
  for (const Row& row : run.rows) {
    const auto limit = limit_of(run, row);
    const double reached = reached_by(row);
    has_figure = has_figure || reached > 0;
    if (!limit || reached <= 0) continue;
    const double share = reached / limit->bytes_per_second;
    if (best && best->share >= share) continue;
    best = Verdict{.limit = *limit,
                   .size_bytes = row.size_bytes,
                   .reached_bytes_per_second = reached,
                   .share = share};
  }
  if (!best) {
    return {.why_none = has_figure ? "neither a link rate nor a PCIe link is known"
                                   : "no figure counts, since no data were verified"};
  }
  if (best->share > kMostShare) {
    return {.why_none = fmt::format(
                "the limit is not known: {} was taken for it, {:.2f} GB/s, and {:.2f} GB/s were "
                "reached, at {}",
                best->limit.what, best->limit.bytes_per_second / 1e9,
                best->reached_bytes_per_second / 1e9, size_text(best->size_bytes))};
  }
  return {.verdict = best};
}

}  // namespace hbmwire::tools::perf

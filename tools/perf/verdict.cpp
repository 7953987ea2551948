// SPDX-License-Identifier: MIT
#include "tools/perf/verdict.hpp"

#include <fmt/format.h>

#include <string_view>

namespace hbmwire::tools::perf {
namespace {

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

std::optional<Verdict> judge(const RunResult& run) {
  std::optional<Verdict> best;
  for (const Row& row : run.rows) {
    const auto limit = limit_of(run, row);
    const double reached = reached_by(row);
    if (!limit || reached <= 0) continue;
    const double share = reached / limit->bytes_per_second;
    if (best && best->share >= share) continue;
    best = Verdict{.limit = *limit,
                   .size_bytes = row.size_bytes,
                   .reached_bytes_per_second = reached,
                   .share = share};
  }
  return best;
}

}  // namespace hbmwire::tools::perf

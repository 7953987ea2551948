// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>

#include "tools/perf/result.hpp"

namespace hbmwire::tools::perf {

/// The limit that a run met, and the share of it that it reached. On hardware, the limit is the
/// slowest link or PCIe slot of both sides. Emulated hardware has no wire, so the limit is the copy
/// that the NIC makes (Row::memcpy_bytes_per_second). For a latency test, the rate is that of
/// single messages. A run in both directions may use each limit twice. Rows that failed
/// verification do not count.
struct Judgement {
  std::optional<Verdict> verdict = {};
  std::string why_none = {};  ///< no limit is known, or the run exceeded the known ones
};

[[nodiscard]] Judgement judge(const RunResult& run);

}  // namespace hbmwire::tools::perf

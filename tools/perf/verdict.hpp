// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>

#include "tools/perf/result.hpp"

namespace hbmwire::tools::perf {

/// Which limit a run met, and how near it came. On hardware the least of both sides' links and
/// PCIe slots; emulated hardware has no wire, so there it is the copy that the NIC makes
/// (Row::memcpy_bytes_per_second). Of a latency test: what the messages, one at a time, moved. A
/// run in both directions may pass each limit twice. Rows whose verification failed don't count.
struct Judgement {
  std::optional<Verdict> verdict = {};
  std::string why_none = {};  ///< no limit is known, or none that holds: more was reached
};

[[nodiscard]] Judgement judge(const RunResult& run);

}  // namespace hbmwire::tools::perf

// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include "tools/perf/result.hpp"

namespace hbmwire::tools::perf {

/// Which limit a run met, and how near it came. On hardware the least of both sides' links and
/// PCIe slots; emulated hardware has no wire, so there it is the copy that the NIC makes
/// (Row::memcpy_bytes_per_second). Of a latency test: what the messages, one at a time, moved. A
/// run in both directions may pass each limit twice. Rows whose verification failed don't count.
/// Nothing where no limit is known.
[[nodiscard]] std::optional<Verdict> judge(const RunResult& run);

}  // namespace hbmwire::tools::perf

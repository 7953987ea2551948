// SPDX-License-Identifier: MIT
#pragma once

#include "tools/perf/engine.hpp"

/// Conversions between results and the messages in which the two sides exchange them.
namespace hbmwire::tools::perf {

[[nodiscard]] wire::PerfSide to_wire(const MemorySide& side);

/// Makes foreign texts printable.
[[nodiscard]] Side from_wire(const wire::PerfSide& side);

[[nodiscard]] wire::PerfReport to_report(const Measured& measured, const Verification& found);

/// Merges both sides' reports into one row. Both sides get the same row, but for `cpu` and
/// `peer_cpu`, which are exchanged.
[[nodiscard]] Row merge(const Work& work, std::uint64_t size_bytes, const wire::PerfReport& mine,
                        const wire::PerfReport& theirs);

}  // namespace hbmwire::tools::perf

// SPDX-License-Identifier: MIT
#pragma once

#include "tools/perf/engine.hpp"

/// What the two sides tell each other of themselves and of what they found.
namespace hbmwire::tools::perf {

[[nodiscard]] wire::PerfSide to_wire(const MemorySide& side);

/// Foreign texts are made printable.
[[nodiscard]] Side from_wire(const wire::PerfSide& side);

[[nodiscard]] wire::PerfReport to_report(const Measured& measured, const Verification& found);

/// One row of both sides' reports: the same on both, but for whose CPU is whose.
[[nodiscard]] Row merge(const Work& work, std::uint64_t size_bytes, const wire::PerfReport& mine,
                        const wire::PerfReport& theirs);

}  // namespace hbmwire::tools::perf

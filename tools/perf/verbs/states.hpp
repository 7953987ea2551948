// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "tools/perf/verbs/lanes.hpp"

/// A test's queue pairs through their states, ibv_modify_qp(3): RC, UC and UD, with perftest's
/// parameters, which the library's own connections do not have.
namespace hbmwire::tools::perf {

/// Every datagram's sender says it, every receiver wants it. Any value will do.
inline constexpr std::uint32_t kQueueKey = 0x11111111;

[[nodiscard]] ibv_qp_type type_of(PerfConnection connection) noexcept;

Outcome<void> to_init(const Work& work, ibv_qp* qp);
Outcome<void> to_ready(const Work& work, ibv_qp* qp, const Route& route);
Outcome<void> to_reset(const Work& work, ibv_qp* qp);

}  // namespace hbmwire::tools::perf

// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "tools/perf/verbs/lanes.hpp"

/// Takes a test's queue pairs through their states with ibv_modify_qp(3): RC, UC and UD with
/// perftest's parameters, which the library's own connections do not support.
namespace hbmwire::tools::perf {

/// The Q_Key: each datagram carries it, and the queue pair that receives the datagram requires it.
/// Any value is fine.
inline constexpr std::uint32_t kQueueKey = 0x11111111;

[[nodiscard]] ibv_qp_type type_of(PerfConnection connection) noexcept;

/// From RESET to INIT; from INIT to RTS, with a counterpart; from any state to RESET.
Outcome<void> to_init(const Work& work, ibv_qp* qp);
Outcome<void> to_ready(const Work& work, ibv_qp* qp, const Route& route);
Outcome<void> to_reset(const Work& work, ibv_qp* qp);

}  // namespace hbmwire::tools::perf

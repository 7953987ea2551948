// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "hbmwire/trace.hpp"

/// Settings that are not in Settings, whose members programs of 0.1 were compiled with.
namespace hbmwire {

/// HBMWIRE_STATS and HBMWIRE_STATS_PEERS.
struct StatisticsSettings {
  bool publish = false;      // whether other processes of this user may read the counters
  std::uint64_t peers = 64;  // peers that have series of their own; the others share one
};

/// Errors: as settings_from_environment().
[[nodiscard]] Result<StatisticsSettings> statistics_settings();

/// HBMWIRE_TRACE and HBMWIRE_TRACE_BYTES; no file: no trace is wanted. Errors: likewise.
[[nodiscard]] Result<TraceOptions> trace_settings();

}  // namespace hbmwire

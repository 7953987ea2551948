// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hbmwire/settings.hpp"
#include "hbmwire/trace.hpp"

namespace hbmwire {

/// HBMWIRE_STATS and HBMWIRE_STATS_PEERS.
struct StatisticsSettings {
  bool publish = false;      // whether other processes of this user may read the counters
  std::uint64_t peers = 64;  // peers that have series of their own; the others share one
};

/// HBMWIRE_GROUP, HBMWIRE_GROUP_RANK and HBMWIRE_GROUP_SIZE: what GroupOptions leave open.
struct GroupSettings {
  std::string meeting;  // as GroupOptions::meeting; empty: the launcher's
  std::optional<std::uint32_t> rank;
  std::optional<std::uint32_t> size;
};

/// The settings, with those that came later than 0.1.0: programs were compiled with the members
/// that Settings had then.
struct EverySetting : Settings {
  StatisticsSettings statistics;
  TraceOptions trace;  // HBMWIRE_TRACE, HBMWIRE_TRACE_BYTES; no file: no trace is wanted
  GroupSettings group;
};

/// As settings_from_environment().
[[nodiscard]] Result<EverySetting> every_setting();

}  // namespace hbmwire

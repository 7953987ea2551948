// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hbmwire/settings.hpp"
#include "hbmwire/trace.hpp"

namespace hbmwire {

/// The settings HBMWIRE_STATS and HBMWIRE_STATS_PEERS.
struct StatisticsSettings {
  bool publish = false;      // whether other processes of this user may read the counters
  std::uint64_t peers = 64;  // peers with series of their own; the others share one
};

/// HBMWIRE_GROUP, HBMWIRE_GROUP_RANK and HBMWIRE_GROUP_SIZE: what GroupOptions leave open.
struct GroupSettings {
  std::string meeting;  // as GroupOptions::meeting; empty: the launcher says where
  std::optional<std::uint32_t> rank;
  std::optional<std::uint32_t> size;
};

/// Settings, and the settings that were added after 0.1.0. They stay out of Settings because its
/// layout is part of the ABI: programs were compiled with the members that it had then.
struct EverySetting : Settings {
  StatisticsSettings statistics;
  TraceOptions trace;  // HBMWIRE_TRACE, HBMWIRE_TRACE_BYTES; without a file there is no trace
  GroupSettings group;
};

/// Like settings_from_environment().
[[nodiscard]] Result<EverySetting> every_setting();

}  // namespace hbmwire

// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hbmwire/trace.hpp"

#include "trace/trace_record.hpp"

namespace hbmwire::detail {

/// An endpoint, as a trace names it.
struct TracePeer {
  std::string nic;
  std::string peer;
  std::uint32_t worker = 0;
};

/// Makes the text of a trace: events of the Trace Event Format, one a line, in its array form,
/// which is still read where it was cut off (docs/tracing.md).
///
/// Slices of one track must not overlap, and transfers of an endpoint do. So each endpoint has as
/// many tracks as it ever had transfers under way at a time, and each transfer takes one that was
/// free all the time.
class TraceEvents {
 public:
  explicit TraceEvents(std::uint32_t process) noexcept : process_(process) {}

  /// The process, and when the trace began. All of these may throw std::bad_alloc.
  void begin(std::string& text, std::int64_t now_ns, std::int64_t wall_clock_ns) const;

  /// A transfer, and what names its track where that is new.
  void add(std::string& text, const TraceRecord& record, std::uint32_t worker);

  /// Whether add() has to be told of the record's endpoint before.
  [[nodiscard]] bool needs_peer(const TraceRecord& record) const {
    return record.connection != 0 && !tracks_.contains(record.connection);
  }

  void set_peer(std::uint32_t connection, const TracePeer& peer);

  /// No further record has this endpoint.
  void forget(std::uint32_t connection) { tracks_.erase(connection); }

  /// The end of the file, behind which nothing follows; `failure`: why it ends early, or empty.
  void end(std::string& text, std::int64_t now_ns, const TraceCounts& counts,
           std::string_view failure) const;

 private:
  /// Those of an endpoint, or of a worker's own transfers.
  struct Tracks {
    std::string name;
    std::string who;  // members of each event
    std::string nic;  // the same, where a NIC carries it
    std::uint64_t sort = 0;
    std::uint32_t count = 0;
    std::multimap<std::int64_t, std::uint32_t> free;  // since when, and its number
  };

  Tracks& tracks_of(const TraceRecord& record, std::uint32_t worker);
  std::uint32_t track_for(std::string& text, Tracks& tracks, const TraceRecord& record);
  void add_name(std::string& text, const Tracks& tracks, std::uint32_t number) const;
  [[nodiscard]] std::string_view local_type(std::uint16_t path_record);

  std::uint32_t process_;
  std::uint32_t last_track_ = 0;
  std::unordered_map<std::uint32_t, Tracks> tracks_;         // by EndpointState::number
  std::unordered_map<std::uint32_t, Tracks> worker_tracks_;  // by the worker's number
  std::vector<std::string_view> local_types_;                // by PathRecord::number
};

}  // namespace hbmwire::detail

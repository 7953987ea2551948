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

/// The names of an endpoint in a trace.
struct TracePeer {
  std::string nic;
  std::string peer;
  std::uint32_t worker = 0;
};

/// Makes the text of a trace: events of the Trace Event Format, one on each line, in its array
/// form, which can be read even if it was cut off (docs/tracing.md).
///
/// Slices of one track must not overlap, but transfers of an endpoint do. So each endpoint has as
/// many tracks as it ever had transfers under way at once, and each transfer takes a track that was
/// free all the time.
class TraceEvents {
 public:
  explicit TraceEvents(std::uint32_t process) noexcept : process_(process) {}

  /// Writes the process, and the start of the trace. All of these functions may throw
  /// std::bad_alloc.
  void begin(std::string& text, std::int64_t now_ns, std::int64_t wall_clock_ns) const;

  /// Writes a transfer, and the name of its track if that is new.
  void add(std::string& text, const TraceRecord& record, std::uint32_t worker);

  /// Whether set_peer() must be called for the record's endpoint before add().
  [[nodiscard]] bool needs_peer(const TraceRecord& record) const {
    return record.connection != 0 && !tracks_.contains(record.connection);
  }

  void set_peer(std::uint32_t connection, const TracePeer& peer);

  /// No later record has this endpoint.
  void forget(std::uint32_t connection) { tracks_.erase(connection); }

  /// Ends the file; nothing may follow. `failure`: why it ends early, or empty.
  void end(std::string& text, std::int64_t now_ns, const TraceCounts& counts,
           std::string_view failure) const;

 private:
  /// The tracks of an endpoint, or of a worker's own transfers.
  struct Tracks {
    std::string name;
    std::string who;  // JSON members of each event
    std::string nic;  // one more member, for transfers that the connection carries
    std::uint64_t sort = 0;
    std::uint32_t count = 0;
    std::multimap<std::int64_t, std::uint32_t> free;  // track numbers, by the time since when free
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

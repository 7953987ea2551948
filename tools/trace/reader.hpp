// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <istream>
#include <optional>
#include <string>
#include <string_view>

#include "tools/common/failure.hpp"

namespace hbmwire::tools::trace {

/// A transfer in the file. Times are in nanoseconds; missing ones are negative.
struct TracedTransfer {
  std::int64_t asked_ns = 0;  // since the trace began
  std::int64_t took_ns = 0;
  std::int64_t posted_ns = -1;  // since the application asked for it
  std::uint64_t bytes = 0;
  std::uint64_t worker = 0;
  std::uint64_t endpoint = 0;  // 0 if there is none
  bool failed = false;
  std::string kind;
  std::string path;
  std::string protocol;
  std::string by;
  std::string nic;
  std::string peer;
  std::string local;
  std::string remote;
  std::string wait;
  std::string error;
  std::string code;
  std::string hint;

  /// The time that it waited before it was posted; 0 if it did not wait.
  [[nodiscard]] std::int64_t waited_ns() const noexcept {
    if (wait.empty()) return 0;
    return posted_ns < 0 ? took_ns : posted_ns;
  }

  [[nodiscard]] std::int64_t over_ns() const noexcept { return asked_ns + took_ns; }
};

/// The facts in a file about the whole trace.
struct TraceFacts {
  /// The counts at the end of the trace.
  struct End {
    std::int64_t at_ns = 0;  // since the trace began
    std::uint64_t transfers = 0;
    std::uint64_t dropped_busy = 0;
    std::uint64_t dropped_full = 0;
    std::string error;  // the reason if it ended before its process
  };

  std::string process;  // name of the process
  std::string version;  // version of hbmwire
  std::uint64_t process_id = 0;
  double wall_clock_us = 0;  // when the trace began, since 1970
  std::optional<End> end;    // empty if the file ends early
  std::uint64_t transfers = 0;
  std::uint64_t odd_events = 0;  // events that this version never writes
};

/// Reads a trace event by event, and passes each transfer to `use`, for which it is valid only
/// during the call. A file that ends early is read up to its end. `name`: the file's name for
/// messages. Errors: it is empty, no JSON, or the file of another program.
Outcome<TraceFacts> read_trace(std::istream& in, std::string_view name,
                               const std::function<void(const TracedTransfer&)>& use);

}  // namespace hbmwire::tools::trace

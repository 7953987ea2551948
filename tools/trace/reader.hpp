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

/// A transfer, as the file has it. Times in nanoseconds; those that may be missing are negative.
struct TracedTransfer {
  std::int64_t asked_ns = 0;  // since the trace began
  std::int64_t took_ns = 0;
  std::int64_t posted_ns = -1;  // since it was asked for
  std::uint64_t bytes = 0;
  std::uint64_t worker = 0;
  std::uint64_t endpoint = 0;  // 0: none
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

  /// How long it waited before it was posted; 0: it did not.
  [[nodiscard]] std::int64_t waited_ns() const noexcept {
    if (wait.empty()) return 0;
    return posted_ns < 0 ? took_ns : posted_ns;
  }

  [[nodiscard]] std::int64_t over_ns() const noexcept { return asked_ns + took_ns; }
};

/// The facts that a file has of the trace as a whole.
struct TraceFacts {
  /// The counts when it ended.
  struct End {
    std::int64_t at_ns = 0;  // since it began
    std::uint64_t transfers = 0;
    std::uint64_t dropped_busy = 0;
    std::uint64_t dropped_full = 0;
    std::string error;  // why it ended before its process
  };

  std::string process;  // its name
  std::string version;  // of hbmwire
  std::uint64_t process_id = 0;
  double wall_clock_us = 0;  // when it began, since 1970
  std::optional<End> end;    // none: the file ends midway
  std::uint64_t transfers = 0;
  std::uint64_t odd_events = 0;  // that no trace of this version has
};

/// Reads a trace event by event, and gives each transfer to `use`, which sees it for that call
/// alone. A file that ends midway is read up to there. `name`: of the file, for sentences. Errors:
/// it is empty, no JSON, or another program's.
Outcome<TraceFacts> read_trace(std::istream& in, std::string_view name,
                               const std::function<void(const TracedTransfer&)>& use);

}  // namespace hbmwire::tools::trace

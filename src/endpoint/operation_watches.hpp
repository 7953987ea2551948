// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>

#include "endpoint/oldest_watch.hpp"

namespace hbmwire::detail {

/// By which an endpoint knows for how long its operations have been under way.
struct OperationWatches {
  explicit OperationWatches(std::chrono::nanoseconds patience) noexcept
      : requests(patience / kSteps), posted(patience / kSteps), queued(patience / kSteps) {}

  // Twice as fine as the looks are at least: what began behind one look is marked by the next one.
  static constexpr int kSteps = 16;
  static_assert(kSteps <= OldestWatch::kMarks, "what is late is the oldest that is remembered");

  OldestWatch requests;  // all that the NIC was given, the library's own among them
  OldestWatch posted;    // those that operations asked for
  OldestWatch queued;
};

}  // namespace hbmwire::detail

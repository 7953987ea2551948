// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>

#include "endpoint/oldest_watch.hpp"

namespace hbmwire::detail {

/// Tells an endpoint how long its operations have been under way.
struct OperationWatches {
  explicit OperationWatches(std::chrono::nanoseconds patience) noexcept
      : requests(patience / kSteps), posted(patience / kSteps), queued(patience / kSteps) {}

  // Steps are at least twice as fine as the looks, so the first look after an operation has begun
  // marks it.
  static constexpr int kSteps = 16;
  static_assert(kSteps <= OldestWatch::kMarks, "the marks reach back as far as the patience");

  OldestWatch requests;  // all requests that the NIC was given, including the library's own
  OldestWatch posted;    // only requests of operations
  OldestWatch queued;    // operations that wait in the endpoint's queue
};

}  // namespace hbmwire::detail

// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>

#include "hbmwire/worker.hpp"

#include "tools/common/failure.hpp"

namespace hbmwire::tools::perf {

/// For -e: sleeps until the worker has something to do, or for a moment, after which the caller
/// checks the peer again.
inline Outcome<void> doze(Worker& worker) {
  constexpr std::chrono::milliseconds kMoment{20};
  const auto woken = worker.wait(kMoment);
  if (woken || woken.error().code == Errc::timed_out) return {};
  return tl::make_unexpected(woken.error());
}

}  // namespace hbmwire::tools::perf

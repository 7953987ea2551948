// SPDX-License-Identifier: MIT
#pragma once

#include <functional>

#include "tools/perf/engine.hpp"
#include "tools/perf/options.hpp"

namespace hbmwire::tools::perf {

/// Gets notified of the progress of a run.
class Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer() = default;

  /// Called when everything except the rows is known. Errors: the output cannot be written.
  virtual Outcome<void> begins(const RunResult& run) = 0;
  /// Called before each of `count` sizes is measured.
  virtual void measures(std::uint64_t size_bytes, std::size_t index, std::size_t count) = 0;
  /// Called after each size; `row` is the last one of `run`.
  virtual void measured(const RunResult& run, const Row& row) = 0;
};

/// For a server: receives the client's parameters, which apply to both sides.
Outcome<PerfRequest> hear_request(Session& session);

/// Runs the whole test with one peer, which has the same `request`: memory, connection, each size.
/// `result` contains all results so far, even on failure.
Outcome<void> run_test(const Options& options, Role role, Session& session,
                       const PerfRequest& request, Observer& observer, RunResult& result);

}  // namespace hbmwire::tools::perf

// SPDX-License-Identifier: MIT
#pragma once

#include <functional>

#include "tools/perf/engine.hpp"
#include "tools/perf/options.hpp"

namespace hbmwire::tools::perf {

/// Who wants to know how a run goes.
class Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer() = default;

  /// All but the rows is known. Errors: what is to be said can't be.
  virtual Outcome<void> begins(const RunResult& run) = 0;
  virtual void measures(std::uint64_t size_bytes, std::size_t index, std::size_t count) = 0;
  virtual void measured(const RunResult& run, const Row& row) = 0;
};

/// A server's: the client's parameters, which go for both.
Outcome<PerfRequest> hear_request(Session& session);

/// A whole run with one peer, who has `request` as well: memory, connection, each size. `result`
/// has what is known also when it fails.
Outcome<void> run_test(const Options& options, Role role, Session& session,
                       const PerfRequest& request, Observer& observer, RunResult& result);

}  // namespace hbmwire::tools::perf

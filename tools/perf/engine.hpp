// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/common/failure.hpp"
#include "tools/common/session.hpp"
#include "tools/perf/memory_side.hpp"
#include "tools/perf/parameters.hpp"
#include "tools/perf/result.hpp"
#include "tools/wire/perf_messages.hpp"

namespace hbmwire::tools::perf {

/// The objects for one side of a run; all of them outlive the engine.
struct Work {
  Work(const PerfRequest& request_of, Role role_of, Session& session_of, MemorySide& side_of,
       wire::PerfSide peer_of)
      : request(request_of),
        role(role_of),
        session(session_of),
        side(side_of),
        peer(std::move(peer_of)) {}

  const PerfRequest& request;
  Role role;
  Session& session;
  MemorySide& side;
  wire::PerfSide peer;

  [[nodiscard]] bool is_client() const noexcept { return role == Role::client; }

  /// Whether this side starts transfers in the timed part.
  [[nodiscard]] bool is_active() const noexcept { return is_client() || goes_both_ways(request); }

  /// Whether the peer starts transfers in the timed part.
  [[nodiscard]] bool is_passive() const noexcept { return !is_client() || goes_both_ways(request); }

  [[nodiscard]] bool is_latency() const noexcept {
    return kind_of(request.test).measure == Measure::latency;
  }

  /// Returns when the peer has reached the same point.
  Outcome<void> meet();

 private:
  std::uint16_t meetings_ = 0;  // so far
};

/// The measurements of one side in a timed part. A passive side has only arrivals.
struct Measured {
  std::uint64_t messages = 0;  ///< messages that this side started or received
  std::uint64_t arrivals = 0;  ///< completions that this side received, if any
  std::optional<Bandwidth> bandwidth = {};
  std::optional<Latency> latency = {};
  CpuUse cpu = {};
  std::string path = {};  ///< path of transfers through the endpoint API, as their reports name it
};

/// Moves messages. Both sides make the same calls in the same order. Each call uses Work::meet() to
/// ensure that nothing moves before both sides are ready, nor after it has returned.
class Engine {
 public:
  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  virtual ~Engine() = default;

  /// Makes queue pairs, or endpoints, and connects them to the peer's.
  virtual Outcome<void> connect() = 0;

  /// The parameters that connect() chose, for banner and JSON.
  [[nodiscard]] virtual std::vector<Parameter> parameters() const { return {}; }

  /// Sets the message size from here on.
  virtual Outcome<void> prepare(std::uint64_t size_bytes) = 0;

  /// Untimed: fills a new pattern, poisons the target, and moves at least one message for each slot
  /// with the parameters of the run. Compares device memory, and adds the result to `found`. Wrong
  /// bytes are no failure.
  virtual Outcome<void> verify(std::uint32_t pass, Verification& found) = 0;

  /// Untimed and unverified: moves some messages.
  virtual Outcome<void> warm_up() = 0;

  /// Runs the timed part.
  virtual Outcome<Measured> run() = 0;

  /// The sum of Row::moved_bytes over all rows so far; empty for a test of verbs.
  [[nodiscard]] virtual std::optional<std::uint64_t> moved_bytes() const { return std::nullopt; }
};

std::unique_ptr<Engine> make_verbs_engine(Work& work);
std::unique_ptr<Engine> make_endpoint_engine(Work& work);

}  // namespace hbmwire::tools::perf

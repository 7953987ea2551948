// SPDX-License-Identifier: MIT
#include "tools/perf/runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "tools/common/output.hpp"
#include "tools/perf/report.hpp"
#include "tools/perf/verbs/lanes.hpp"

namespace hbmwire::tools::perf {
namespace {

Access access_of(const PerfRequest& request) {
  Access access = Access::local_write | Access::remote_write | Access::remote_read;
  // Requested only for atomics, because not every NIC supports them.
  if (kind_of(request.test).verb == Verb::atomic) access = access | Access::remote_atomic;
  return access;
}

// The options of this side, with the memory that the client wants here.
Outcome<SideOptions> choose_side(const Options& options, Role role, const PerfRequest& request) {
  SideOptions side = options.side;
  side.by_endpoints = !is_verbs(request.test);
  if (role == Role::client || request.memory.empty()) return side;
  const auto choice = parse_memory(request.memory);
  if (!choice) {
    return fail(
        fmt::format("connect: the client wants memory \"{}\", which is none: are both of "
                    "one version?",
                    wire::printable(request.memory)));
  }
  // A client's choice applies to both sides, unless this side has made its own.
  const std::string& own = side.device.device;
  const bool device_differs = !own.empty() && !choice->device.empty() && own != choice->device;
  if (options.memory_given && (side.memory != choice->type || device_differs)) {
    return fail(
        fmt::format("configure: the client wants {} here, and this side was told {}{}{}; give both "
                    "sides the same, or the client --memory A,B",
                    wire::printable(request.memory), to_string(side.memory), own.empty() ? "" : ":",
                    own),
        kExitUsage);
  }
  side.memory = choice->type;
  if (!choice->device.empty()) side.device.device = choice->device;
  return side;
}

std::unique_ptr<Engine> make_engine(Work& work) {
  return is_verbs(work.request.test) ? make_verbs_engine(work) : make_endpoint_engine(work);
}

/// Adds the values that only this side measures.
void add_own(Row& row, const Measured& measured) {
  if (row.bandwidth && measured.bandwidth) row.bandwidth->noise = measured.bandwidth->noise;
  if (row.latency && measured.latency) row.latency->noise = measured.latency->noise;
  row.path = measured.path;
}

/// One side of a run, after both have connected.
class Run {
 public:
  Run(Work& work, Observer& observer, RunResult& result)
      : work_(work), observer_(observer), result_(result), engine_(make_engine(work)) {}

  Outcome<void> go() {
    HBMWIRE_TRY(engine_->connect());
    const auto sizes = sizes_of(work_.request);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      HBMWIRE_TRY(engine_->prepare(sizes[i]));
      if (i == 0) {  // the engine knows its parameters only now
        for (auto& parameter : engine_->parameters())
          result_.parameters.push_back(std::move(parameter));
        HBMWIRE_TRY(observer_.begins(result_));
      }
      observer_.measures(sizes[i], i, sizes.size());
      HBMWIRE_TRY_ASSIGN(auto row, measure(sizes[i]));
      result_.rows.push_back(row);
      observer_.measured(result_, row);
    }
    return {};
  }

 private:
  Outcome<Row> measure(std::uint64_t size_bytes) {
    const auto moved_before = engine_->moved_bytes();
    Verification found;
    if (work_.request.verify) HBMWIRE_TRY(engine_->verify(pass_++, found));
    if (work_.request.warm_up) HBMWIRE_TRY(engine_->warm_up());
    HBMWIRE_TRY_ASSIGN(const auto measured, engine_->run());
    if (work_.request.verify) HBMWIRE_TRY(engine_->verify(pass_++, found));
    const wire::PerfReport mine = to_report(measured, found);
    HBMWIRE_TRY(work_.session.send(mine));
    HBMWIRE_TRY_ASSIGN(const auto theirs, work_.session.expect<wire::PerfReport>());
    Row row = merge(work_, size_bytes, mine, theirs);
    add_own(row, measured);
    if (moved_before) row.moved_bytes = *engine_->moved_bytes() - *moved_before;
    return row;
  }

  Work& work_;
  Observer& observer_;
  RunResult& result_;
  std::unique_ptr<Engine> engine_;
  std::uint32_t pass_ = 0;
};

}  // namespace

Outcome<void> Work::meet() {
  // Any numbers that differ from one meeting to the next. 0xffff is the sign of life.
  const auto step = static_cast<Step>(0x1000 + (meetings_++ & 0xfff));
  HBMWIRE_TRY(session.announce(step));
  HBMWIRE_TRY(session.await_mail());
  return session.expect_step(step);
}

Outcome<PerfRequest> hear_request(Session& session) {
  HBMWIRE_TRY_ASSIGN(auto request, session.expect<wire::PerfRequest>());
  HBMWIRE_TRY(check(request));
  return request;
}

Outcome<void> run_test(const Options& options, Role role, Session& session,
                       const PerfRequest& request, Observer& observer, RunResult& result) {
  result.test = kind_of(request.test).name;
  result.title = title_of(request);
  result.measure = kind_of(request.test).measure;
  result.bidirectional = request.bidirectional;
  result.verified = request.verify;
  result.emulated = is_emulated();
  result.parameters = describe(request);
  HBMWIRE_TRY_ASSIGN(const SideOptions side_options, choose_side(options, role, request));
  HBMWIRE_TRY_ASSIGN(
      auto side, open_memory_side(side_options, Layout::of(request), access_of(request), session));
  result.local = side.description;
  const ReadDepths reads = reads_of(side.nic);
  wire::PerfSide mine = to_wire(side);
  mine.reads_in = reads.in;
  mine.reads_out = reads.out;
  HBMWIRE_TRY(session.send(mine));
  HBMWIRE_TRY_ASSIGN(const auto theirs, session.expect<wire::PerfSide>());
  result.remote = from_wire(theirs);
  result.emulated = result.emulated || theirs.emulated;
  Work work(request, role, session, side, theirs);
  Run run(work, observer, result);
  auto done = run.go();
  // Sent before the connections close, because their end would reach the peer before this message.
  if (!done) session.give_up(done.error());
  return done;
}

}  // namespace hbmwire::tools::perf

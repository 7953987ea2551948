// SPDX-License-Identifier: MIT
#include "tools/perf/engine.hpp"

#include <optional>

#include "tools/perf/contents.hpp"
#include "tools/perf/cpu_meter.hpp"
#include "tools/perf/endpoint/flow.hpp"
#include "tools/perf/engine_steps.hpp"

namespace hbmwire::tools::perf {
namespace {

/// Tests through the endpoint API.
class EndpointEngine final : public Engine {
 public:
  explicit EndpointEngine(Work& work)
      : work_(work),
        request_(work.request),
        verb_(kind_of(work.request.test).verb),
        contents_(work.side, work.session),
        watch_(work.session) {}

  Outcome<void> connect() override;
  [[nodiscard]] std::vector<Parameter> parameters() const override;
  Outcome<void> prepare(std::uint64_t size_bytes) override;
  Outcome<void> verify(std::uint32_t pass, Verification& found) override;
  Outcome<void> warm_up() override;
  Outcome<Measured> run() override;

  [[nodiscard]] std::optional<std::uint64_t> moved_bytes() const override { return moved_bytes_; }

 private:
  /// Whether a pass reads this side's memory.
  [[nodiscard]] bool gives() const noexcept {
    return verb_ == Verb::get ? work_.is_passive() : work_.is_active();
  }

  /// Whether a pass writes this side's memory.
  [[nodiscard]] bool takes() const noexcept {
    return verb_ == Verb::get ? work_.is_active() : work_.is_passive();
  }

  /// put_lat on memory that the CPU cannot read.
  [[nodiscard]] bool by_immediate() const noexcept {
    return request_.one_by_immediate || work_.side.on_device() || work_.peer.on_device;
  }

  Outcome<void> write_patterns(std::uint32_t pass);
  Outcome<void> compare_arrived(std::uint32_t pass, Verification& found);
  [[nodiscard]] Flow make_flow(std::uint64_t messages) const;
  Outcome<PassResult> move(const Flow& flow);

  /// Counts for Row::moved_bytes.
  void note_moved(std::uint64_t messages) noexcept { moved_bytes_ += messages * slots_.size_bytes; }

  [[nodiscard]] Echo make_echo() const;
  Outcome<Measured> run_bandwidth();
  Outcome<Measured> run_latency();

  Work& work_;
  const PerfRequest& request_;
  Verb verb_;
  Contents contents_;
  Watch watch_;
  std::optional<Links> links_;
  Slots slots_;  // the source slots; messages arrive at the same places of the other half
  std::uint64_t moved_bytes_ = 0;
};

Outcome<void> EndpointEngine::connect() {
  HBMWIRE_TRY_ASSIGN(links_, connect_links(work_));
  return work_.meet();
}

std::vector<Parameter> EndpointEngine::parameters() const {
  std::vector<Parameter> list;
  list.push_back({"Protocol", "protocol", "endpoint API"});
  if (verb_ == Verb::put && work_.is_latency()) {
    list.push_back(
        {"Seen by", "seen_by",
         by_immediate() ? "immediate: the CPU can't reach the memory" : "polled memory"});
  }
  return list;
}

Outcome<void> EndpointEngine::prepare(std::uint64_t size_bytes) {
  slots_ = Slots::of(work_.side.layout, size_bytes);
  return work_.meet();
}

/// Fills the source with the pattern, and poisons the target.
Outcome<void> EndpointEngine::write_patterns(std::uint32_t pass) {
  const std::uint64_t span_bytes = slots_.span_bytes(work_.side.layout);
  set_pattern(contents_, work_, /*own=*/true, pass);
  if (gives()) HBMWIRE_TRY(contents_.fill_source(span_bytes));
  set_pattern(contents_, work_, /*own=*/false, pass);
  if (takes()) HBMWIRE_TRY(contents_.poison_target(span_bytes));
  return {};
}

/// Compares this side's target. An endpoint matches messages in the order in which they were sent,
/// so each message arrives in the other half at the place that it came from.
Outcome<void> EndpointEngine::compare_arrived(std::uint32_t pass, Verification& found) {
  if (!takes()) return {};
  set_pattern(contents_, work_, /*own=*/false, pass);
  return contents_.compare(all_slots(work_.side.layout, slots_), found);
}

Flow EndpointEngine::make_flow(std::uint64_t messages) const {
  return {.verb = verb_,
          .starts = work_.is_active(),
          .takes = verb_ == Verb::tag && work_.is_passive(),
          .events = request_.events,
          .messages = messages,
          .duration = std::chrono::seconds(request_.duration_s),
          .pace = {},
          .slots = &slots_};
}

/// One pass, from the point where both sides are ready until it is complete on this side.
Outcome<PassResult> EndpointEngine::move(const Flow& flow) {
  HBMWIRE_TRY(start_receives(*links_, flow));
  HBMWIRE_TRY(work_.meet());
  watch_.restart();
  HBMWIRE_TRY_ASSIGN(const auto result, run_flow(*links_, flow, watch_));
  note_moved(result.messages);
  return result;
}

Outcome<void> EndpointEngine::verify(std::uint32_t pass, Verification& found) {
  HBMWIRE_TRY(write_patterns(pass));
  const Flow flow = make_flow(slots_.offsets.size());
  HBMWIRE_TRY_ASSIGN(const auto result, move(flow));
  HBMWIRE_TRY(work_.meet());
  std::optional<std::uint64_t> expected;
  if (flow.takes) expected = flow.messages * links_->links.size();
  note_arrivals(result, expected, found);
  HBMWIRE_TRY(compare_arrived(pass, found));
  return work_.meet();
}

Outcome<void> EndpointEngine::warm_up() {
  HBMWIRE_TRY(move(make_flow(request_.tx_depth)));
  return work_.meet();
}

Outcome<Measured> EndpointEngine::run() {
  return work_.is_latency() ? run_latency() : run_bandwidth();
}

Outcome<Measured> EndpointEngine::run_bandwidth() {
  Marks posts;
  Marks completions;
  Flow flow = make_flow(request_.iterations);
  flow.posts = &posts;
  flow.completions = &completions;
  flow.pace = pace_of(request_, slots_.size_bytes, watch_.rate().ns_per_tick());
  HBMWIRE_TRY(start_receives(*links_, flow));
  HBMWIRE_TRY(work_.meet());
  watch_.restart();
  const CpuMeter meter;
  HBMWIRE_TRY_ASSIGN(const auto result, run_flow(*links_, flow, watch_));
  note_moved(result.messages);
  Measured measured{.messages = result.messages, .arrivals = result.arrivals};
  measured.path = result.path;
  HBMWIRE_TRY_ASSIGN(measured.cpu, end_timed(work_, meter, !flow.starts && !flow.takes));
  if (flow.starts) {
    measured.bandwidth =
        bandwidth_of(result, slots_.size_bytes, posts, completions, watch_.rate().ns_per_tick());
  }
  return measured;
}

Echo EndpointEngine::make_echo() const {
  Echo echo;
  if (verb_ == Verb::get) {
    echo.kind = Echo::Kind::get;
  } else if (verb_ == Verb::tag) {
    echo.kind = Echo::Kind::message;
  } else if (by_immediate()) {
    echo.kind = Echo::Kind::immediate;
  }
  echo.starts = work_.is_client();
  echo.events = request_.events;
  echo.rounds = request_.iterations;
  echo.duration = std::chrono::seconds(request_.duration_s);
  echo.size_bytes = slots_.size_bytes;
  echo.offset_bytes = slots_.offsets.front();
  if (echo.kind == Echo::Kind::memory) echo.last = last_bytes(work_.side, slots_);
  return echo;
}

Outcome<Measured> EndpointEngine::run_latency() {
  const Echo echo = make_echo();
  const bool one_sided = echo.kind == Echo::Kind::get;
  if (echo.last.ping != nullptr) *echo.last.ping = 0;  // rounds count from 1
  HBMWIRE_TRY(start_receives(*links_, echo));
  LatencySamples samples;
  HBMWIRE_TRY(work_.meet());
  watch_.restart();
  const CpuMeter meter;
  Measured measured;
  const bool waits = one_sided && !echo.starts;
  if (!waits) {
    HBMWIRE_TRY_ASSIGN(const auto result, run_echo(*links_, echo, watch_, samples));
    note_moved(result.messages);
    measured.messages = result.messages;
    // Arrivals of puts are no messages, and are not counted.
    measured.arrivals = echo.kind == Echo::Kind::message ? result.arrivals : 0;
    measured.path = result.path;
  }
  HBMWIRE_TRY_ASSIGN(measured.cpu, end_timed(work_, meter, waits));
  if (echo.starts)
    measured.latency = samples.summary(watch_.rate().ns_per_tick() * (one_sided ? 1 : 0.5));
  return measured;
}

}  // namespace

std::unique_ptr<Engine> make_endpoint_engine(Work& work) {
  return std::make_unique<EndpointEngine>(work);
}

}  // namespace hbmwire::tools::perf

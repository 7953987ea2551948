// SPDX-License-Identifier: MIT
#include "tools/perf/engine.hpp"

#include <algorithm>
#include <optional>

#include "hbmwire/low_level/native.hpp"

#include "tools/perf/contents.hpp"
#include "tools/perf/cpu_meter.hpp"
#include "tools/perf/engine_steps.hpp"
#include "tools/perf/layout.hpp"
#include "tools/perf/verbs/rdma_cm.hpp"
#include "tools/perf/verbs/requests.hpp"
#include "tools/perf/verbs/traffic.hpp"

namespace hbmwire::tools::perf {
namespace {

/// Tests that use verbs directly.
class VerbsEngine final : public Engine {
 public:
  explicit VerbsEngine(Work& work)
      : work_(work),
        request_(work.request),
        verb_(kind_of(work.request.test).verb),
        contents_(work.side, work.session),
        watch_(work.session),
        cm_(work) {}

  Outcome<void> connect() override;
  [[nodiscard]] std::vector<Parameter> parameters() const override;
  Outcome<void> prepare(std::uint64_t size_bytes) override;
  Outcome<void> verify(std::uint32_t pass, Verification& found) override;
  Outcome<void> warm_up() override;
  Outcome<Measured> run() override;

 private:
  [[nodiscard]] bool has_arrivals() const noexcept { return verb_ == Verb::send; }

  /// write_lat on memory that the CPU cannot read.
  [[nodiscard]] bool by_immediate() const noexcept {
    return verb_ == Verb::write && work_.is_latency() &&
           (request_.one_by_immediate || work_.side.on_device() || work_.peer.on_device);
  }

  [[nodiscard]] Traffic make_traffic(std::uint64_t messages);
  /// Begins another pass: each call takes the next number of a pass.
  [[nodiscard]] Receiving make_receiving();
  Outcome<PassResult> move(Traffic& traffic, Receiver& receiver);
  Outcome<void> write_patterns(std::uint32_t pass);
  Outcome<void> compare_arrived(std::uint32_t pass, Verification& found);
  [[nodiscard]] std::vector<Expected> landed_places() const;
  Outcome<Measured> run_bandwidth();
  Outcome<Measured> run_latency();
  [[nodiscard]] Bounce make_bounce() const;

  Work& work_;
  const PerfRequest& request_;
  Verb verb_;
  Contents contents_;
  Watch watch_;
  CmConnector cm_;
  Lanes lanes_;  // destroyed before cm_, which holds the connections of -R
  wire::PerfQueues peer_;
  Slots sent_;      // source of messages
  Slots received_;  // their target: the same places, except for datagrams
  bool prepared_ = false;
  std::uint8_t pass_ = 0;
  std::vector<std::vector<std::uint64_t>> landed_;  // Receiving::landed of the verified pass
  std::uint64_t pass_messages_ = 0;                 // messages of a lane in the verified pass
};

Outcome<void> VerbsEngine::connect() {
  HBMWIRE_TRY_ASSIGN(lanes_, create_lanes(work_));
  HBMWIRE_TRY_ASSIGN(auto mine, describe_lanes(work_, lanes_));
  if (request_.rdma_cm && !work_.is_client()) {
    HBMWIRE_TRY_ASSIGN(mine.service_port, cm_.listen(mine));
  }
  HBMWIRE_TRY(work_.session.send(mine));
  HBMWIRE_TRY_ASSIGN(peer_, work_.session.expect<wire::PerfQueues>());
  HBMWIRE_TRY(connect_lanes(work_, lanes_, peer_));
  if (request_.rdma_cm) HBMWIRE_TRY(cm_.connect(lanes_, peer_));
  return work_.meet();
}

std::vector<Parameter> VerbsEngine::parameters() const {
  std::vector<Parameter> list;
  list.push_back({"Mtu [B]", "mtu", lanes_.mtu_bytes});
  list.push_back({"Link type", "link_type", work_.side.nic.info().ethernet ? "Ethernet" : "IB"});
  list.push_back(
      {"GID index", "gid_index", work_.side.gid_index.value_or(work_.side.nic.info().gid_index)});
  list.push_back({"CQ Moderation", "cq_moderation", moderation_of(request_, sent_.size_bytes)});
  if (verb_ == Verb::read || verb_ == Verb::atomic) {
    list.push_back({"Outstand reads", "outstanding_reads", lanes_.reads_out});
  } else {
    list.push_back({"Max inline data [B]", "max_inline_data", lanes_.inline_bytes});
  }
  if (by_immediate()) {
    list.push_back({"Seen by", "seen_by", "WRITE with immediate: the CPU can't reach the memory"});
  }
  return list;
}

Outcome<void> VerbsEngine::prepare(std::uint64_t size_bytes) {
  const bool datagrams = request_.connection == PerfConnection::ud;
  sent_ = Slots::of(work_.side.layout, size_bytes);
  received_ = Slots::of(work_.side.layout, size_bytes, datagrams ? kGrhBytes : 0);
  // Receives for the last size would stay in the queue pairs, so these begin anew.
  const bool receives = has_arrivals() || by_immediate();
  if (prepared_ && receives) HBMWIRE_TRY(renew_lanes(work_, lanes_));
  prepared_ = true;
  HBMWIRE_TRY(build_requests(work_, lanes_, peer_, sent_, received_));
  return work_.meet();
}

Traffic VerbsEngine::make_traffic(std::uint64_t messages) {
  Traffic traffic;
  traffic.remote = verb_ == Verb::send     ? Remote::none
                   : verb_ == Verb::atomic ? Remote::atomic
                                           : Remote::rdma;
  traffic.sends = work_.is_active();
  traffic.receives = has_arrivals() && work_.is_passive();
  traffic.unreliable = request_.connection != PerfConnection::rc;
  traffic.events = request_.events;
  traffic.messages = messages;
  traffic.expected = messages * lanes_.lanes.size();
  traffic.sending.depth = request_.tx_depth;
  traffic.sending.list = request_.post_list;
  traffic.sending.moderation = moderation_of(request_, sent_.size_bytes);
  traffic.sending.window = has_arrivals() ? request_.rx_depth : 0;
  traffic.sending.offsets = sent_.offsets.data();
  traffic.sending.slots = sent_.offsets.size();
  traffic.receiving = make_receiving();
  return traffic;
}

Receiving VerbsEngine::make_receiving() {
  Receiving receiving;
  // A side that only sends still receives credits.
  receiving.depth = kCreditRoom / 2;
  if (has_arrivals() && work_.is_passive()) {
    receiving.depth = request_.rx_depth + (work_.is_active() ? kCreditRoom / 2 : 0);
    receiving.grain = receive_grain(request_);
    receiving.credit_grain = credit_grain(request_);
  }
  receiving.message_bytes = static_cast<std::uint32_t>(sent_.size_bytes + received_.header_bytes);
  receiving.offsets = received_.offsets.data();
  receiving.slots = received_.offsets.size();
  receiving.pass = ++pass_;
  return receiving;
}

/// One pass, from the point where both sides are ready until it is complete on this side.
Outcome<PassResult> VerbsEngine::move(Traffic& traffic, Receiver& receiver) {
  if (has_arrivals()) HBMWIRE_TRY(start_receives(lanes_, receiver));
  HBMWIRE_TRY(work_.meet());
  watch_.restart();
  HBMWIRE_TRY_ASSIGN(const auto result, run_traffic(lanes_, traffic, receiver, watch_));
  return result;
}

/// Fills the source with the pattern, and poisons the target. An atomic changes words of the
/// target, which are filled instead, and returns them into the source half, which is poisoned.
Outcome<void> VerbsEngine::write_patterns(std::uint32_t pass) {
  const bool active = work_.is_active();
  const bool passive = work_.is_passive();
  const std::uint64_t source_bytes = sent_.span_bytes(work_.side.layout);
  const std::uint64_t target_bytes = received_.span_bytes(work_.side.layout);
  set_pattern(contents_, work_, /*own=*/true, pass);
  const bool gives = verb_ == Verb::read ? passive : active;
  if (gives && verb_ != Verb::atomic) HBMWIRE_TRY(contents_.fill_source(source_bytes));
  if (passive && verb_ == Verb::atomic) {
    HBMWIRE_TRY(contents_.fill_target(target_bytes));
    HBMWIRE_TRY(lay_out_words(work_, contents_, sent_));
  }
  set_pattern(contents_, work_, /*own=*/false, pass);
  const bool takes = verb_ == Verb::read ? active : passive;
  if (takes && verb_ != Verb::atomic) HBMWIRE_TRY(contents_.poison_target(target_bytes));
  if (active && verb_ == Verb::atomic) HBMWIRE_TRY(contents_.poison_source(source_bytes));
  return {};
}

/// The places where messages landed, and the source slot of each: messages go through the source
/// slots in turn.
std::vector<Expected> VerbsEngine::landed_places() const {
  std::vector<Expected> places;
  for (std::uint32_t lane = 0; lane < landed_.size(); ++lane) {
    for (std::size_t slot = 0; slot < landed_[lane].size(); ++slot) {
      const std::uint64_t message = landed_[lane][slot];
      if (message == Receiver::kNothing) continue;
      const std::uint64_t from = sent_.offsets[message % sent_.offsets.size()];
      places.push_back(
          {.at = work_.side.layout.target(lane) + received_.offsets[slot] + received_.header_bytes,
           .from = work_.side.layout.source(lane) + from,
           .size_bytes = sent_.size_bytes});
    }
  }
  std::ranges::sort(places, {}, &Expected::at);
  return places;
}

Outcome<void> VerbsEngine::compare_arrived(std::uint32_t pass, Verification& found) {
  const bool takes = verb_ == Verb::read ? work_.is_active() : work_.is_passive();
  if (verb_ == Verb::atomic)
    return compare_atomics(work_, contents_, sent_, {pass, pass_messages_}, found);
  if (!takes) return {};
  set_pattern(contents_, work_, /*own=*/false, pass);
  if (has_arrivals()) return contents_.compare(landed_places(), found);
  return contents_.compare(all_slots(work_.side.layout, sent_), found);
}

Outcome<void> VerbsEngine::verify(std::uint32_t pass, Verification& found) {
  HBMWIRE_TRY(write_patterns(pass));
  // Uses each slot at least once, by whole lists.
  pass_messages_ =
      round_up(std::max(sent_.offsets.size(), received_.offsets.size()), request_.post_list);
  Traffic traffic = make_traffic(pass_messages_);
  landed_.assign(lanes_.lanes.size(),
                 std::vector<std::uint64_t>(received_.offsets.size(), Receiver::kNothing));
  traffic.receiving.landed = &landed_;
  Receiver receiver(lanes_, traffic.receiving);
  HBMWIRE_TRY_ASSIGN(const auto result, move(traffic, receiver));
  HBMWIRE_TRY(work_.meet());
  std::optional<std::uint64_t> expected;
  if (traffic.receives) expected = traffic.expected;
  note_arrivals(result, expected, found);
  HBMWIRE_TRY(compare_arrived(pass, found));
  return work_.meet();
}

Outcome<void> VerbsEngine::warm_up() {
  Traffic traffic = make_traffic(round_up(request_.tx_depth, request_.post_list));
  Receiver receiver(lanes_, traffic.receiving);
  HBMWIRE_TRY(move(traffic, receiver));
  return work_.meet();
}

Outcome<Measured> VerbsEngine::run() {
  return work_.is_latency() ? run_latency() : run_bandwidth();
}

Outcome<Measured> VerbsEngine::run_bandwidth() {
  Traffic traffic = make_traffic(round_up(request_.iterations, request_.post_list));
  traffic.duration = std::chrono::seconds(request_.duration_s);
  Marks posts;
  Marks completions;
  traffic.sending.posts = &posts;
  traffic.sending.completions = &completions;
  const double ns_per_tick = watch_.rate().ns_per_tick();
  traffic.pace = pace_of(request_, sent_.size_bytes, ns_per_tick);
  Receiver receiver(lanes_, traffic.receiving);
  if (has_arrivals()) HBMWIRE_TRY(start_receives(lanes_, receiver));
  HBMWIRE_TRY(work_.meet());
  watch_.restart();
  const CpuMeter meter;
  HBMWIRE_TRY_ASSIGN(const auto result, run_traffic(lanes_, traffic, receiver, watch_));
  Measured measured{.messages = result.messages, .arrivals = result.arrivals};
  HBMWIRE_TRY_ASSIGN(measured.cpu, end_timed(work_, meter, !traffic.sends && !traffic.receives));
  if (traffic.sends) {
    measured.bandwidth =
        bandwidth_of(result, sent_.size_bytes, posts, completions, watch_.rate().ns_per_tick());
  }
  return measured;
}

Bounce VerbsEngine::make_bounce() const {
  Bounce bounce;
  if (verb_ == Verb::read || verb_ == Verb::atomic) {
    bounce.kind = Bounce::Kind::one_sided;
  } else if (verb_ == Verb::send || by_immediate()) {
    bounce.kind = Bounce::Kind::completion;
  }
  bounce.starts = work_.is_client();
  bounce.events = request_.events;
  bounce.rounds = request_.iterations;
  bounce.duration = std::chrono::seconds(request_.duration_s);
  if (bounce.kind == Bounce::Kind::memory) bounce.last = last_bytes(work_.side, sent_);
  return bounce;
}

Outcome<Measured> VerbsEngine::run_latency() {
  const Bounce bounce = make_bounce();
  const bool one_sided = bounce.kind == Bounce::Kind::one_sided;
  Receiving receiving = make_receiving();
  receiving.depth = request_.rx_depth;
  receiving.grain = 0;  // the loop posts each receive again by Receiver::refill()
  receiving.credit_grain = 0;
  Receiver receiver(lanes_, receiving);
  if (bounce.kind == Bounce::Kind::completion) HBMWIRE_TRY(start_receives(lanes_, receiver));
  if (bounce.last.ping != nullptr) *bounce.last.ping = 0;  // rounds count from 1
  single_out(request_, lanes_.lanes.front(), sent_, by_immediate());
  LatencySamples samples;
  HBMWIRE_TRY(work_.meet());
  watch_.restart();
  const CpuMeter meter;
  Measured measured;
  const bool waits = one_sided && !bounce.starts;
  if (!waits) {
    HBMWIRE_TRY_ASSIGN(const auto result, run_bounce(lanes_, bounce, receiver, watch_, samples));
    measured.messages = result.messages;
    // Arrivals of WRITEs with immediate are not counted.
    measured.arrivals = has_arrivals() ? result.arrivals : 0;
  }
  rejoin(request_, lanes_.lanes.front());
  HBMWIRE_TRY_ASSIGN(measured.cpu, end_timed(work_, meter, waits));
  if (bounce.starts)
    measured.latency = samples.summary(watch_.rate().ns_per_tick() * (one_sided ? 1 : 0.5));
  return measured;
}

}  // namespace

std::unique_ptr<Engine> make_verbs_engine(Work& work) {
  return std::make_unique<VerbsEngine>(work);
}

}  // namespace hbmwire::tools::perf

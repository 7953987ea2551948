// SPDX-License-Identifier: MIT
#include "tools/doctor/remote/link_run.hpp"

#include <algorithm>

#include "hbmwire/path.hpp"

#include "tools/doctor/checks/reading.hpp"
#include "tools/doctor/pairs/timing.hpp"
#include "tools/wire/messages.hpp"

namespace hbmwire::tools::doctor {
namespace {

// The path MTUs to try if packets of the ports' MTU do not arrive. Any Ethernet passes the
// smallest.
constexpr std::uint32_t kSmallerMtus[] = {1024, 256};

// A copy between a memory and its own engine, in which the other side has no part.
constexpr const char* kCopyStep = "copy";

double rate_at(const Json& json, const char* name) {
  const Json& value = member(json, name);
  const double rate = value.is_number() ? value.get<double>() : 0;
  return rate > 0 && rate < 1e18 ? rate : 0;
}

/// Ends the steps of a pair whose error is already stored.
tl::unexpected<Failure> pair_failed() { return fail(std::string()); }

/// Whether the step precedes the use of the wire: a failure in it is that of one end alone.
bool is_before_work(std::string_view step) {
  for (const Stage stage : {Stage::configure, Stage::probe, Stage::open, Stage::allocate,
                            Stage::export_dmabuf, Stage::register_memory}) {
    if (step == to_string(stage)) return true;
  }
  return false;
}

class LinkRun {
 public:
  LinkRun(LinkPair& pair, Agent& here, Agent& there, const LinkRunOptions& options)
      : pair_(pair), here_(here), there_(there), options_(options) {}

  Outcome<void> run(std::uint32_t mtu_bytes) {
    const auto done = go(mtu_bytes);
    // A failure that is not stored in the pair ends the whole run.
    if (!done && !pair_.error) return done;
    if (lost_) return {};           // an agent no longer answers
    const LinkPair result = pair_;  // dropping the queue pairs does not change it
    for (const Side side : {Side::here, Side::there}) {
      pair_.error.reset();
      const auto dropped = ask(side, {{"do", "drop"}});
      if (!dropped && !pair_.error) return tl::make_unexpected(dropped.error());
    }
    pair_ = result;
    return {};
  }

  /// Whether an agent has ended or hangs.
  [[nodiscard]] bool lost() const noexcept { return lost_; }

 private:
  Outcome<void> go(std::uint32_t mtu_bytes);
  Outcome<std::string> take_nic(Side side, std::uint32_t mtu_bytes);
  Outcome<void> move(Side from, bool write);
  Outcome<void> compare(Side side, const char* what);
  Outcome<void> measure();
  void judge();
  Outcome<Json> ask(Side side, const Json& command);
  /// Stores the error of an answer in the pair, and ends the pair's steps. `error` is null for an
  /// answer that made no sense.
  tl::unexpected<Failure> note(const Json& error, Side side);
  /// Stores that an agent gave no answer, and ends the pair's steps.
  tl::unexpected<Failure> lose(Side side, bool hung, const std::string& how);

  Agent& agent(Side side) { return side == Side::here ? here_ : there_; }

  void step(const char* what) {
    step_ = what;
    options_.on_step(what);
  }

  LinkPair& pair_;
  Agent& here_;
  Agent& there_;
  const LinkRunOptions& options_;
  std::string step_;
  unsigned our_seed_ = 0;  // the seed that last filled this side's source window
  unsigned their_seed_ = 0;
  bool lost_ = false;
};

tl::unexpected<Failure> LinkRun::note(const Json& error, Side side) {
  pair_.error = error_from_json(error);
  if (!pair_.error) {
    pair_.error = PairError{.step = step_,
                            .code = std::string(to_string(Errc::protocol)),
                            .hint = "none",
                            .text = step_ +
                                    ": an answer that makes no sense; use the same version "
                                    "of hbmwire at both ends"};
  }
  const bool early = is_before_work(pair_.error->step);
  pair_.outcome = pair_.error->code == to_string(Errc::busy) ? PairOutcome::untried
                  : early                                    ? PairOutcome::refused
                                                             : PairOutcome::failed;
  pair_.noticed_by = side;
  // One end notices a failure on the wire, but the other end may be its cause.
  if (early || step_ == kCopyStep) pair_.side = side;
  return pair_failed();
}

tl::unexpected<Failure> LinkRun::lose(Side side, bool hung, const std::string& how) {
  lost_ = true;
  const std::string what = fmt::format("{}: {}", pair_.end(side).nic, pair_.end(side).memory);
  pair_.error = no_answer(step_, what, hung, options_.step, how);
  pair_.noticed_by = side;
  pair_.side = side;
  pair_.outcome = PairOutcome::refused;
  return pair_failed();
}

/// Returns an answer that is no error.
Outcome<Json> LinkRun::ask(Side side, const Json& command) {
  HBMWIRE_TRY(agent(side).tell(command));
  HBMWIRE_TRY_ASSIGN(
      const Heard heard,
      agent(side).hear(Deadline::after(options_.step + kAnswerSlack), options_.cancel_fd));
  switch (heard.kind) {
    case Heard::Kind::interrupted:
      return tl::make_unexpected(interrupted_failure());
    case Heard::Kind::silent:
      return lose(side, true, agent(side).end());
    case Heard::Kind::ended:
      return lose(side, false, agent(side).end());
    case Heard::Kind::value:
      break;
  }
  const Json& error = member(heard.value, "error");
  if (!error.is_null()) return note(error, side);
  return heard.value;
}

/// Makes the queue pair of that side, and returns its address.
Outcome<std::string> LinkRun::take_nic(Side side, std::uint32_t mtu_bytes) {
  HBMWIRE_TRY_ASSIGN(const Json answer,
                     ask(side, {{"do", "nic"}, {"nic", pair_.end(side).nic}, {"mtu", mtu_bytes}}));
  const Json& staged = member(answer, "staged");
  if (!staged.is_null()) {
    const auto stop = note(staged, side);
    pair_.outcome = PairOutcome::staged;
    pair_.end(side).path = to_string(Path::staged);
    pair_.side = side;
    return stop;
  }
  pair_.end(side).path = wire::printable(text_at(answer, "path"));
  pair_.end(side).distance = wire::printable(text_at(answer, "distance"));
  const double possible = rate_at(answer, "possible");
  if (possible > 0 &&
      (pair_.possible_bytes_per_second <= 0 || possible < pair_.possible_bytes_per_second)) {
    pair_.possible_bytes_per_second = possible;
    pair_.limit = wire::printable(text_at(answer, "limit"));
  }
  const auto mtu = static_cast<std::uint32_t>(number_at(answer, "mtu").value_or(0));
  pair_.mtu_bytes = side == Side::here ? mtu : std::min(mtu, pair_.mtu_bytes);
  return text_at(answer, "end");
}

Outcome<void> LinkRun::go(std::uint32_t mtu_bytes) {
  step("register");
  HBMWIRE_TRY_ASSIGN(const std::string ours, take_nic(Side::here, mtu_bytes));
  HBMWIRE_TRY_ASSIGN(const std::string theirs, take_nic(Side::there, mtu_bytes));
  step("connect");
  HBMWIRE_TRY(ask(Side::there, {{"do", "connect"}, {"end", ours}}));
  HBMWIRE_TRY(ask(Side::here, {{"do", "connect"}, {"end", theirs}}));
  for (const Side from : {Side::here, Side::there}) {
    for (const bool write : {true, false}) HBMWIRE_TRY(move(from, write));
  }
  HBMWIRE_TRY(measure());
  judge();
  return {};
}

/// Moves a window away from that side, by writes of its own or by reads of the other side.
Outcome<void> LinkRun::move(Side from, bool write) {
  const Side to = opposite(from);
  // Each of the four moves has a pattern of its own.
  const unsigned seed = 1 + (write ? 1U : 0U) + (from == Side::here ? 2U : 0U);
  step(kCopyStep);
  HBMWIRE_TRY(ask(from, {{"do", "fill"}, {"seed", seed}}));
  HBMWIRE_TRY(ask(to, {{"do", "poison"}, {"seed", seed}}));
  step(write ? "write" : "read");
  HBMWIRE_TRY(ask(write ? from : to, {{"do", "move"}, {"write", write}}));
  (from == Side::here ? our_seed_ : their_seed_) = seed;
  return compare(to, write ? "write" : "read");
}

/// Compares that side's window with the last contents of the other side's.
Outcome<void> LinkRun::compare(Side side, const char* what) {
  step("verify");
  const unsigned seed = side == Side::here ? their_seed_ : our_seed_;
  HBMWIRE_TRY_ASSIGN(const Json found,
                     ask(side, {{"do", "compare"}, {"seed", seed}, {"what", what}}));
  const auto compared = number_at(found, "compared");
  const auto wrong = number_at(found, "wrong");
  if (compared != kWindowBytes || !wrong) return note(nullptr, side);
  pair_.verified_bytes += *compared;
  pair_.wrong_bytes += *wrong;
  if (*wrong != 0) return note(member(found, "differs"), side);
  return {};
}

/// Also compares the last pass, because each pass overwrites the one before.
Outcome<void> LinkRun::measure() {
  step("time");
  const Json command{{"do", "time"}, {"ms", options_.measure.count()}};
  HBMWIRE_TRY_ASSIGN(const Json ours, ask(Side::here, command));
  HBMWIRE_TRY_ASSIGN(const Json theirs, ask(Side::there, command));
  pair_.out = {.by_write = rate_at(ours, "write"), .by_read = rate_at(theirs, "read")};
  pair_.back = {.by_write = rate_at(theirs, "write"), .by_read = rate_at(ours, "read")};
  pair_.latency_ns = rate_at(ours, "latency");
  for (const Side side : {Side::here, Side::there}) {
    const LinkRate& rate = side == Side::here ? pair_.out : pair_.back;
    if (rate.by_write <= 0 || rate.by_read <= 0) return note(nullptr, side);
    HBMWIRE_TRY(compare(side, "timed part"));
  }
  return {};
}

/// The path of the end that has device memory.
Path path_of(const LinkPair& pair) {
  for (const Path path : {Path::peer_memory, Path::zero_copy}) {
    if (pair.here.path == to_string(path) || pair.there.path == to_string(path)) return path;
  }
  return Path::host;
}

void LinkRun::judge() {
  for (LinkRate* const rate : {&pair_.out, &pair_.back})
    rate->judged = judged_rate(options_.emulated, rate->by_write, rate->by_read);
  pair_.outcome = outcome_of(path_of(pair_), std::min(pair_.out.judged, pair_.back.judged),
                             pair_.possible_bytes_per_second, options_.emulated);
}

/// Whether the failure may come from packets that do not arrive, and smaller ones can be tried.
bool is_lost_on_the_way(const LinkPair& pair) {
  return pair.error && !pair.side && pair.error->hint == to_string(Hint::peer_unreachable) &&
         pair.mtu_bytes > kSmallerMtus[0];
}

PairError too_large(const LinkPair& pair, std::uint32_t arrives) {
  constexpr std::uint32_t kHeaders = 104;  // of RoCE: a path MTU of 4096 takes packets of 4200
  PairError error = *pair.error;
  error.code = "mtu";
  error.text = fmt::format(
      "way: {} - {}: packets of the path MTU of {} bytes do not arrive, and those of {} bytes do; "
      "raise the MTU of all switches and interfaces between the two to {} bytes or more, or set "
      "HBMWIRE_LINK_MTU={} at both ends",
      pair.here.nic, pair.there.nic, pair.mtu_bytes, arrives, pair.mtu_bytes + kHeaders, arrives);
  return error;
}

}  // namespace

Outcome<LinkPair> run_link(LinkPair pair, Agent& here, Agent& there,
                           const LinkRunOptions& options) {
  LinkRun first(pair, here, there, options);
  HBMWIRE_TRY(first.run(0));  // with the ports' MTU
  if (first.lost() || !is_lost_on_the_way(pair)) return pair;
  for (const std::uint32_t mtu : kSmallerMtus) {
    LinkPair smaller{.here = pair.here, .there = pair.there};
    LinkRun again(smaller, here, there, options);
    HBMWIRE_TRY(again.run(mtu));
    if (again.lost()) break;
    if (smaller.error) continue;
    pair.error = too_large(pair, mtu);
    break;
  }
  return pair;
}

}  // namespace hbmwire::tools::doctor

// SPDX-License-Identifier: MIT
#include <algorithm>
#include <limits>
#include <optional>

#include "tools/perf/endpoint/doze.hpp"
#include "tools/perf/endpoint/flow.hpp"

namespace hbmwire::tools::perf {
namespace {

constexpr TagMatch kFlowTag{.tag = 7};
constexpr std::uint64_t kWithoutEnd = std::numeric_limits<std::uint64_t>::max();

Result<Transfer> start_one(Link& link, const Region& region, Verb verb, std::uint64_t slot,
                           std::uint64_t bytes) {
  // A get reads the peer's source half, and writes this side's target half.
  if (verb == Verb::get)
    return link.endpoint.get(region.slice(link.target + slot, bytes),
                             link.remote.slice(link.source + slot, bytes));
  const Slice from = region.slice(link.source + slot, bytes);
  if (verb == Verb::tag) return link.endpoint.send(from, kFlowTag.tag);
  return link.endpoint.put(from, link.remote.slice(link.target + slot, bytes));
}

/// Whether the transfer is over. Errors: those of the transfer. Asks done() first, since poll()
/// drives the worker each time.
Result<bool> is_over(Transfer& transfer) {
  if (!transfer.done()) return false;
  return transfer.poll();
}

Result<void> expect_one(Link& link, const Region& region, const Slots& slots) {
  const std::uint64_t slot = slots.offsets[link.next_receive_slot];
  auto receive =
      link.endpoint.receive(region.slice(link.target + slot, slots.size_bytes), kFlowTag);
  if (!receive) return tl::make_unexpected(receive.error());
  link.received[link.expected % link.received.size()] = std::move(*receive);
  ++link.expected;
  if (++link.next_receive_slot == slots.offsets.size()) link.next_receive_slot = 0;
  return {};
}

/// Posts as many receives as there is room for, but no more than messages will come: excess
/// receives would take messages of the next pass.
Result<void> expect_more(Link& link, const Region& region, const Flow& flow) {
  const std::uint64_t all = flow.messages == 0 ? kWithoutEnd : flow.messages;
  while (link.expected < all && link.expected - link.taken < link.received.size())
    HBMWIRE_TRY(expect_one(link, region, *flow.slots));
  return {};
}

/// One pass of traffic: the loop of both sides.
class FlowLoop {
 public:
  FlowLoop(Links& links, const Flow& flow, Watch& watch)
      : links_(links), region_(*links.region), flow_(flow), watch_(watch) {}

  Outcome<PassResult> run() {
    const std::uint64_t begin = ticks();
    stop_at_ = timed() ? begin + watch_.rate().in(flow_.duration) : kWithoutEnd;
    next_burst_ = begin;
    budget_ = flow_.pace.gap_ticks == 0 ? kWithoutEnd : 0;
    for (Link& link : links_.links) link.limit = timed() ? kWithoutEnd : flow_.messages;
    std::uint64_t now = begin;
    while (!is_done()) {
      if (flow_.pace.gap_ticks != 0) keep_pace(now);
      HBMWIRE_TRY_ASSIGN(const bool moved, round());
      now = ticks();
      if (now >= stop_at_) stop();
      if (watch_.due(now)) [[unlikely]]
        HBMWIRE_TRY(look());
      if (!moved && flow_.events) HBMWIRE_TRY(doze(links_.worker));
    }
    result_.ticks = now - begin;
    HBMWIRE_TRY(withdraw_receives());
    return result_;
  }

 private:
  [[nodiscard]] bool timed() const noexcept { return flow_.messages == 0; }

  [[nodiscard]] bool is_done() const noexcept {
    const auto sent = [](const Link& link) {
      return link.started == link.limit && link.finished == link.started;
    };
    if (flow_.starts && !std::ranges::all_of(links_.links, sent)) return false;
    if (!flow_.takes || over_) return true;
    return !timed() && result_.arrivals >= flow_.messages * links_.links.size();
  }

  /// Polls every link once. Returns true if a transfer ended.
  Outcome<bool> round() {
    const std::uint64_t before = result_.messages + result_.arrivals;
    for (Link& link : links_.links) {
      if (flow_.starts) HBMWIRE_TRY(start(link));
    }
    links_.worker.progress();
    for (Link& link : links_.links) {
      if (flow_.starts) HBMWIRE_TRY(finish(link));
      if (flow_.takes) HBMWIRE_TRY(take(link));
    }
    const bool moved = result_.messages + result_.arrivals != before;
    if (moved && flow_.completions != nullptr) flow_.completions->add(result_.messages, ticks());
    return moved;
  }

  /// Starts transfers as far as limit, ring and budget allow. Records the time of the first one.
  Result<void> start(Link& link) {
    bool first = flow_.posts != nullptr;
    while (link.started < link.limit && link.started - link.finished < link.sent.size() &&
           budget_ != 0) {
      if (first) flow_.posts->add(started_, ticks());
      first = false;
      const std::uint64_t slot = flow_.slots->offsets[link.next_slot];
      auto transfer = start_one(link, region_, flow_.verb, slot, flow_.slots->size_bytes);
      if (!transfer) return tl::make_unexpected(transfer.error());
      link.sent[link.started % link.sent.size()] = std::move(*transfer);
      if (++link.next_slot == flow_.slots->offsets.size()) link.next_slot = 0;
      ++link.started;
      ++started_;
      --budget_;
    }
    return {};
  }

  /// Takes the transfers that are over, in the order of their starts.
  Result<void> finish(Link& link) {
    while (link.finished != link.started) {
      Transfer& oldest = link.sent[link.finished % link.sent.size()];
      HBMWIRE_TRY_ASSIGN(const bool over, is_over(oldest));
      if (!over) return {};
      if (result_.path.empty()) [[unlikely]]
        result_.path = describe(oldest.explain());
      oldest.reset();
      ++link.finished;
      ++result_.messages;
    }
    return {};
  }

  /// Takes the messages that have arrived, and posts receives again.
  Result<void> take(Link& link) {
    while (link.taken != link.expected) {
      Transfer& oldest = link.received[link.taken % link.received.size()];
      HBMWIRE_TRY_ASSIGN(const bool over, is_over(oldest));
      if (!over) break;
      if (oldest.bytes() != flow_.slots->size_bytes) ++result_.wrong_sizes;
      oldest.reset();
      ++link.taken;
      ++result_.arrivals;
    }
    return expect_more(link, region_, flow_);
  }

  void keep_pace(std::uint64_t now) noexcept {
    if (now < next_burst_) return;
    budget_ = flow_.pace.burst;
    next_burst_ += flow_.pace.gap_ticks;
    // Messages that could not be sent in time are not made up for later, because the rate is a
    // limit.
    if (next_burst_ < now) next_burst_ = now;
  }

  /// Starts no more transfers; called once, when the time is up.
  void stop() noexcept {
    for (Link& link : links_.links) link.limit = link.started;
    stop_at_ = kWithoutEnd;
  }

  Outcome<void> look() {
    HBMWIRE_TRY(watch_.look(result_.messages + result_.arrivals));
    const auto sent = [](const Link& link) { return link.finished == link.limit; };
    const bool all_sent = !flow_.starts || std::ranges::all_of(links_.links, sent);
    over_ = all_sent && watch_.is_over();
    return {};
  }

  /// Cancels receives that are left: the number of messages of a run by time was not known.
  Result<void> withdraw_receives() {
    for (Link& link : links_.links) {
      for (; link.taken != link.expected; ++link.taken) {
        Transfer& left = link.received[link.taken % link.received.size()];
        HBMWIRE_TRY(left.cancel());
        left.reset();
      }
    }
    return {};
  }

  Links& links_;
  const Region& region_;
  const Flow& flow_;
  Watch& watch_;
  PassResult result_;
  std::uint64_t started_ = 0;
  std::uint64_t stop_at_ = 0;
  std::uint64_t next_burst_ = 0;
  std::uint64_t budget_ = 0;  // transfers that may still start in this burst
  bool over_ = false;
};

}  // namespace

Outcome<void> start_receives(Links& links, const Flow& flow) {
  for (Link& link : links.links) {
    link.started = link.finished = link.expected = link.taken = 0;
    link.next_slot = link.next_receive_slot = 0;
    if (flow.takes) HBMWIRE_TRY(expect_more(link, *links.region, flow));
  }
  return {};
}

Outcome<PassResult> run_flow(Links& links, const Flow& flow, Watch& watch) {
  return FlowLoop(links, flow, watch).run();
}

}  // namespace hbmwire::tools::perf

// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "tools/perf/endpoint/doze.hpp"
#include "tools/perf/endpoint/flow.hpp"

namespace hbmwire::tools::perf {
namespace {

constexpr TagMatch kEchoTag{.tag = 9};  // any other than flow's

/// Posts the receive of one message, or of one put's immediate value.
Result<Transfer> expect_one(Link& link, const Region& region, const Echo& echo) {
  const Slice into = region.slice(link.target + echo.offset_bytes, echo.size_bytes);
  if (echo.kind == Echo::Kind::message) return link.endpoint.receive(into, kEchoTag);
  return link.endpoint.receive_immediate(into);
}

bool is_received(Echo::Kind kind) {
  return kind == Echo::Kind::message || kind == Echo::Kind::immediate;
}

/// A pass of round trips: the loop of both sides. Times are stored raw and processed between
/// stretches, so that only the messages are timed.
template <Echo::Kind kKind>
class EchoLoop {
 public:
  EchoLoop(Links& links, const Echo& echo, Watch& watch, LatencySamples& samples)
      : worker_(links.worker),
        link_(links.links.front()),
        region_(*links.region),
        echo_(echo),
        watch_(watch),
        samples_(samples) {}

  Outcome<PassResult> run() {
    const std::uint64_t begin = ticks();
    // The answering side ends when the other side says so.
    if (echo_.rounds == 0 && echo_.starts) stop_at_ = begin + watch_.rate().in(echo_.duration);
    while (!over_ && rounds_left() != 0 && ticks() < stop_at_) {
      HBMWIRE_TRY(stretch(std::min<std::uint64_t>(rounds_left(), stamps_.size() - 1)));
      HBMWIRE_TRY(watch_.look(round_));
    }
    result_.ticks = ticks() - begin;
    result_.messages = round_;
    return result_;
  }

 private:
  /// A busy wait looks at the clock after so many polls, so that the clock costs little.
  static constexpr unsigned kPollsAtATime = 4096;
  static constexpr std::uint64_t kWithoutEnd = std::numeric_limits<std::uint64_t>::max();

  [[nodiscard]] std::uint64_t rounds_left() const noexcept {
    return echo_.rounds == 0 ? kWithoutEnd : echo_.rounds - round_;
  }

  /// Up to `rounds` round trips, whose samples are added afterwards.
  Outcome<void> stretch(std::uint64_t rounds) {
    std::size_t done = 0;
    for (; done < rounds; ++done) {
      stamps_[done] = ticks();
      if (stamps_[done] >= stop_at_ || watch_.due_between(done, stamps_[done])) [[unlikely]]
        break;
      if (!(echo_.starts ? ask() : answer())) [[unlikely]]
        break;
    }
    if (done == rounds) stamps_[done] = ticks();  // else the loop has set it
    if (failure_) return tl::make_unexpected(*failure_);
    if (!echo_.starts) return {};
    for (std::size_t i = 0; i < done; ++i) samples_.add(stamps_[i + 1] - stamps_[i]);
    return {};
  }

  // The functions that return bool return false if the pass is over, or failed (`failure_`).
  bool ask() {
    ++round_;
    return send() && (kKind == Echo::Kind::get || arrive());
  }

  bool answer() {
    ++round_;
    if (arrive()) return send();
    --round_;  // nothing came
    return false;
  }

  Result<Transfer> start() {
    const std::uint64_t from = link_.source + echo_.offset_bytes;
    const std::uint64_t to = link_.target + echo_.offset_bytes;
    const std::uint64_t bytes = echo_.size_bytes;
    if constexpr (kKind == Echo::Kind::get)
      return link_.endpoint.get(region_.slice(to, bytes), link_.remote.slice(from, bytes));
    if constexpr (kKind == Echo::Kind::message)
      return link_.endpoint.send(region_.slice(from, bytes), kEchoTag.tag);
    PutOptions options;
    if constexpr (kKind == Echo::Kind::immediate)
      options.immediate = static_cast<std::uint32_t>(round_);
    return link_.endpoint.put(region_.slice(from, bytes), link_.remote.slice(to, bytes), options);
  }

  bool send() {
    // The last byte counts the rounds, which shows the peer that a new message has come.
    if constexpr (kKind == Echo::Kind::memory) *echo_.last.pong = static_cast<std::uint8_t>(round_);
    auto transfer = start();
    if (!transfer) return fail_by(transfer.error());
    for (unsigned spins = 1;; ++spins) {
      const auto over = transfer->poll();
      if (!over) [[unlikely]]
        return fail_by(over.error());
      if (*over) break;
      if (!wait_on(spins)) return false;
    }
    if (result_.path.empty()) [[unlikely]]
      result_.path = describe(transfer->explain());
    return true;
  }

  bool arrive() {
    for (unsigned spins = 1;; ++spins) {
      if constexpr (kKind == Echo::Kind::memory) {
        if (*echo_.last.ping == static_cast<std::uint8_t>(round_)) return true;
      } else {
        const auto over = link_.received.front().poll();
        if (!over) [[unlikely]]
          return fail_by(over.error());
        if (*over) return take();
      }
      if (!wait_on(spins)) return false;
    }
  }

  /// Takes the message that arrived, and posts a receive for the next one.
  bool take() {
    Transfer& received = link_.received.front();
    ++result_.arrivals;
    if (received.bytes() != echo_.size_bytes) ++result_.wrong_sizes;
    received.reset();
    auto next = expect_one(link_, region_, echo_);
    if (!next) return fail_by(next.error());
    received = std::move(*next);
    return true;
  }

  /// Called between two polls. Returns false if the pass is over.
  bool wait_on(unsigned spins) {
    if (echo_.events && kKind != Echo::Kind::memory) {
      if (const auto slept = doze(worker_); !slept) return fail_by(slept.error());
      return !watch_.due(ticks()) || look();
    }
    if (spins % kPollsAtATime != 0 || !watch_.due(ticks())) [[likely]]
      return true;
    // A side that only polls memory must still answer the peer's control messages.
    worker_.progress();
    return look();
  }

  bool look() {
    if (const auto looked = watch_.look(round_); !looked) return fail_by(looked.error());
    over_ = watch_.is_over();
    return !over_;
  }

  bool fail_by(const Failure& failure) {
    failure_ = failure;
    return false;
  }

  Worker& worker_;
  Link& link_;
  const Region& region_;
  const Echo& echo_;
  Watch& watch_;
  LatencySamples& samples_;
  std::array<std::uint64_t, 4096> stamps_{};  // when each round of a stretch began; then its end
  std::uint64_t stop_at_ = kWithoutEnd;
  std::uint64_t round_ = 0;
  PassResult result_;
  std::optional<Failure> failure_;
  bool over_ = false;
};

template <Echo::Kind kKind>
Outcome<PassResult> echo_by(Links& links, const Echo& echo, Watch& watch, LatencySamples& samples) {
  auto result = EchoLoop<kKind>(links, echo, watch, samples).run();
  // The receive that take() posted last: its message will not come.
  Transfer& left = links.links.front().received.front();
  if (result && left) {
    HBMWIRE_TRY(left.cancel());
    left.reset();
  }
  return result;
}

}  // namespace

Outcome<void> start_receives(Links& links, const Echo& echo) {
  if (!is_received(echo.kind)) return {};
  Link& link = links.links.front();
  HBMWIRE_TRY_ASSIGN(link.received.front(), expect_one(link, *links.region, echo));
  return {};
}

Outcome<PassResult> run_echo(Links& links, const Echo& echo, Watch& watch,
                             LatencySamples& samples) {
  switch (echo.kind) {
    case Echo::Kind::memory:
      return echo_by<Echo::Kind::memory>(links, echo, watch, samples);
    case Echo::Kind::immediate:
      return echo_by<Echo::Kind::immediate>(links, echo, watch, samples);
    case Echo::Kind::message:
      return echo_by<Echo::Kind::message>(links, echo, watch, samples);
    default:
      return echo_by<Echo::Kind::get>(links, echo, watch, samples);
  }
}

}  // namespace hbmwire::tools::perf

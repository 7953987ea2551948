// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <optional>

#include "tools/perf/verbs/traffic.hpp"

namespace hbmwire::tools::perf {
namespace {

/// A pass of round trips on the first lane: the loop of both sides. Times are stored raw and
/// processed between stretches, so that only the messages are timed.
template <Bounce::Kind kKind>
class BounceLoop {
 public:
  BounceLoop(Lanes& lanes, const Bounce& bounce, Receiver& receiver, Watch& watch,
             LatencySamples& samples)
      : lanes_(lanes),
        lane_(lanes.lanes.front()),
        bounce_(bounce),
        receiver_(receiver),
        watch_(watch),
        samples_(samples),
        sleeper_(lanes, watch.session().control_fd()) {}

  Outcome<PassResult> run() {
    const std::uint64_t begin = ticks();
    // The answering side ends when the other side says so.
    if (bounce_.rounds == 0 && bounce_.starts)
      stop_at_ = begin + watch_.rate().in(bounce_.duration);
    while (!over_ && rounds_left() != 0 && ticks() < stop_at_) {
      HBMWIRE_TRY(stretch(std::min<std::uint64_t>(rounds_left(), stamps_.size() - 1)));
      HBMWIRE_TRY(watch_.look(round_));
    }
    return PassResult{.messages = round_,
                      .arrivals = receiver_.arrived(),
                      .wrong_sizes = receiver_.wrong_sizes(),
                      .ticks = ticks() - begin};
  }

 private:
  /// A busy wait looks at the clock after so many polls, so that the clock costs little.
  static constexpr unsigned kPollsAtATime = 4096;
  static constexpr std::uint64_t kWithoutEnd = ~std::uint64_t{0};

  [[nodiscard]] std::uint64_t rounds_left() const noexcept {
    return bounce_.rounds == 0 ? kWithoutEnd : bounce_.rounds - round_;
  }

  /// Up to `rounds` round trips, whose samples are added afterwards.
  Outcome<void> stretch(std::uint64_t rounds) {
    std::size_t done = 0;
    for (; done < rounds; ++done) {
      stamps_[done] = ticks();
      if (stamps_[done] >= stop_at_ || watch_.due_between(done, stamps_[done])) [[unlikely]]
        break;
      if (!(bounce_.starts ? ask() : answer())) [[unlikely]]
        break;
    }
    if (done == rounds) stamps_[done] = ticks();  // else the loop has set it
    if (fault_ || receiver_.fault()) {
      return tl::make_unexpected(explain(lanes_, fault_ ? fault_ : receiver_.fault()));
    }
    if (failure_) return tl::make_unexpected(*failure_);
    if (!bounce_.starts) return {};
    for (std::size_t i = 0; i < done; ++i) samples_.add(stamps_[i + 1] - stamps_[i]);
    return {};
  }

  // The functions that return bool return false if the pass is over, or failed (`fault_`, the
  // receiver's fault, `failure_`).
  bool ask() noexcept {
    ++round_;
    return send() && (kKind == Bounce::Kind::one_sided || arrive());
  }

  bool answer() noexcept {
    ++round_;
    if (arrive()) return send();
    --round_;  // nothing came
    return false;
  }

  bool send() noexcept {
    // The last byte counts the rounds, which shows the peer that a new message has come.
    if constexpr (kKind == Bounce::Kind::memory)
      *bounce_.last.pong = static_cast<std::uint8_t>(round_);
    ibv_send_wr* bad = nullptr;
    fault_.post_errno = ibv_post_send(lane_.qp.get(), lane_.requests.data(), &bad);
    if (fault_.post_errno != 0) [[unlikely]]
      return false;
    if constexpr (kKind == Bounce::Kind::completion) {
      if (!receiver_.refill(lane_)) return false;
    }
    return complete();
  }

  /// Waits until the posted message completes.
  bool complete() noexcept {
    ibv_wc done;  // NOLINT: filled by the call
    for (unsigned spins = 1;; ++spins) {
      const int count = ibv_poll_cq(lanes_.send_cq.get(), 1, &done);
      if (count == 1) {
        fault_.status = done.status;
        return done.status == IBV_WC_SUCCESS;
      }
      if (count < 0) [[unlikely]] {
        fault_.poll_failed = true;
        return false;
      }
      if (!wait_on(spins)) return false;
    }
  }

  bool arrive() noexcept {
    for (unsigned spins = 1;; ++spins) {
      if constexpr (kKind == Bounce::Kind::memory) {
        if (*bounce_.last.ping == static_cast<std::uint8_t>(round_)) return true;
      } else {
        if (receiver_.step() && receiver_.arrived() >= round_) return true;
        if (receiver_.fault()) return false;
      }
      if (!wait_on(spins)) return false;
    }
  }

  /// Called between two polls. Returns false if the pass is over.
  bool wait_on(unsigned spins) noexcept {
    if (bounce_.events && kKind != Bounce::Kind::memory) return doze();
    if (spins % kPollsAtATime != 0 || !watch_.due(ticks())) [[likely]]
      return true;
    return look();
  }

  bool doze() noexcept {
    const auto armed = sleeper_.arm();
    if (armed && !*armed) return true;  // armed just now: poll once more before the sleep
    const auto slept = armed ? sleeper_.sleep() : tl::make_unexpected(armed.error());
    if (!slept) {
      failure_ = slept.error();
      return false;
    }
    return !watch_.due(ticks()) || look();
  }

  bool look() noexcept {
    if (const auto looked = watch_.look(round_); !looked) {
      failure_ = looked.error();
      return false;
    }
    over_ = watch_.is_over();
    return !over_;
  }

  Lanes& lanes_;
  Lane& lane_;
  const Bounce& bounce_;
  Receiver& receiver_;
  Watch& watch_;
  LatencySamples& samples_;
  Sleeper sleeper_;
  std::array<std::uint64_t, 4096> stamps_{};  // when each round of a stretch began; then its end
  std::uint64_t stop_at_ = kWithoutEnd;
  std::uint64_t round_ = 0;
  Fault fault_;
  std::optional<Failure> failure_;
  bool over_ = false;
};

template <Bounce::Kind kKind>
Outcome<PassResult> bounce_by(Lanes& lanes, const Bounce& bounce, Receiver& receiver, Watch& watch,
                              LatencySamples& samples) {
  BounceLoop<kKind> loop(lanes, bounce, receiver, watch, samples);
  return loop.run();
}

}  // namespace

Outcome<PassResult> run_bounce(Lanes& lanes, const Bounce& bounce, Receiver& receiver, Watch& watch,
                               LatencySamples& samples) {
  switch (bounce.kind) {
    case Bounce::Kind::memory:
      return bounce_by<Bounce::Kind::memory>(lanes, bounce, receiver, watch, samples);
    case Bounce::Kind::completion:
      return bounce_by<Bounce::Kind::completion>(lanes, bounce, receiver, watch, samples);
    default:
      return bounce_by<Bounce::Kind::one_sided>(lanes, bounce, receiver, watch, samples);
  }
}

}  // namespace hbmwire::tools::perf

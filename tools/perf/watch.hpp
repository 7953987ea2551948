// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>

#include "tools/common/session.hpp"
#include "tools/perf/ticks.hpp"

namespace hbmwire::tools::perf {

/// Looks up from a busy loop now and then: whether the user interrupts, whether the peer still
/// lives, whether anything moves. due() costs a comparison.
class Watch {
 public:
  explicit Watch(Session& session)
      : session_(session), patience_(session.patience()), interval_(rate_.in(kInterval)) {}

  /// A new pass begins, in which nothing has moved yet.
  void restart() noexcept {
    next_ = 0;
    progress_ = 0;
    idle_looks_ = 0;
  }

  [[nodiscard]] bool due(std::uint64_t now) const noexcept { return now >= next_; }

  /// Whether to look between two rounds, of which `done` are over since the last look: they may be
  /// so slow, and polls so few in each, that nothing within a round ever gets to it.
  [[nodiscard]] bool due_between(std::uint64_t done, std::uint64_t now) const noexcept {
    return done != 0 && due(now);
  }

  /// `progress`: any number that grows while something moves.
  Outcome<void> look(std::uint64_t progress) {
    HBMWIRE_TRY(session_.tick());
    HBMWIRE_TRY(session_.look());
    const auto now = Clock::now();
    if (progress != progress_ || idle_looks_ == 0) {
      moved_ = now;
      idle_looks_ = 0;
    }
    ++idle_looks_;
    progress_ = progress;
    if (now - moved_ > patience_ || session_.is_silent()) {
      return tl::make_unexpected(make_error(Errc::timed_out, Stage::complete,
                                            "nothing moves any more", session_.peer(),
                                            Hint::peer_slow));
    }
    next_ = ticks() + interval_;
    return {};
  }

  /// Whether the peer waits for this side already, and nothing has moved since it said so: what is
  /// missing now does not come any more.
  [[nodiscard]] bool is_over() const noexcept { return session_.has_mail() && is_idle(); }

  /// Nothing has moved for some looks.
  [[nodiscard]] bool is_idle() const noexcept { return idle_looks_ >= 3; }

  [[nodiscard]] Session& session() noexcept { return session_; }

  [[nodiscard]] const TickRate& rate() const noexcept { return rate_; }

 private:
  // Short, so that runs by time end soon on both sides; a look costs some microseconds.
  static constexpr std::chrono::milliseconds kInterval{20};

  using Clock = std::chrono::steady_clock;

  Session& session_;
  Clock::duration patience_;
  TickRate rate_;
  std::uint64_t interval_;
  std::uint64_t next_ = 0;
  std::uint64_t progress_ = 0;
  Clock::time_point moved_;
  unsigned idle_looks_ = 0;  // in a row at which progress was the same, the first one included
};

}  // namespace hbmwire::tools::perf

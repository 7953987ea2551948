// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>

#include "tools/common/session.hpp"
#include "tools/perf/ticks.hpp"

namespace hbmwire::tools::perf {

/// Interrupts a busy loop now and then to check whether the user interrupts, whether the peer is
/// alive, and whether anything moves. due() costs a comparison.
class Watch {
 public:
  explicit Watch(Session& session)
      : session_(session), patience_(session.patience()), interval_(rate_.in(kInterval)) {}

  /// Begins a new pass, in which nothing has moved yet.
  void restart() noexcept {
    next_ = 0;
    progress_ = 0;
    idle_looks_ = 0;
  }

  [[nodiscard]] bool due(std::uint64_t now) const noexcept { return now >= next_; }

  /// due(), for use between two rounds, since a round may poll so little that it never asks due().
  /// False before the first round since the last look (`done` is 0).
  [[nodiscard]] bool due_between(std::uint64_t done, std::uint64_t now) const noexcept {
    return done != 0 && due(now);
  }

  /// Sends and takes the control messages that are due. `progress`: any number that grows while
  /// messages move. Errors: an interrupt, the peer gave up, or nothing moved for the patience.
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

  /// Whether the peer has sent its next control message, and the last looks saw nothing move:
  /// messages that are still missing are lost.
  [[nodiscard]] bool is_over() const noexcept { return session_.has_mail() && is_idle(); }

  /// True if nothing moved between several looks.
  [[nodiscard]] bool is_idle() const noexcept { return idle_looks_ >= 3; }

  [[nodiscard]] Session& session() noexcept { return session_; }

  [[nodiscard]] const TickRate& rate() const noexcept { return rate_; }

 private:
  // Short, so that runs by time end at nearly the same time on both sides. A look costs some
  // microseconds.
  static constexpr std::chrono::milliseconds kInterval{20};

  using Clock = std::chrono::steady_clock;

  Session& session_;
  Clock::duration patience_;
  TickRate rate_;
  std::uint64_t interval_;
  std::uint64_t next_ = 0;
  std::uint64_t progress_ = 0;
  Clock::time_point moved_;
  unsigned idle_looks_ = 0;  // consecutive looks with the same progress, including the first
};

}  // namespace hbmwire::tools::perf

// SPDX-License-Identifier: MIT
#include <cerrno>
#include <cstdlib>

#include "hbmwire/low_level/native.hpp"

#include "tools/perf/verbs/traffic.hpp"

namespace hbmwire::tools::perf {
namespace {

/// One pass of traffic: the loop of both sides.
class TrafficLoop {
 public:
  TrafficLoop(Lanes& lanes, const Traffic& traffic, Receiver& receiver, Watch& watch)
      : lanes_(lanes),
        traffic_(traffic),
        sender_(lanes, traffic.sending),
        receiver_(receiver),
        watch_(watch),
        sleeper_(lanes, watch.session().control_fd()) {}

  template <Remote kRemote>
  Outcome<PassResult> run() {
    sender_.start(traffic_.sends ? messages() : 0);
    const std::uint64_t begin = ticks();
    stop_at_ = timed() ? begin + watch_.rate().in(traffic_.duration) : kWithoutEnd;
    next_burst_ = begin;
    if (traffic_.pace.gap_ticks != 0) sender_.set_budget(0);
    std::uint64_t now = begin;
    while (!is_done()) {
      if (traffic_.pace.gap_ticks != 0) keep_pace(now);
      const bool moved = round<kRemote>();
      if (sender_.fault() || receiver_.fault()) [[unlikely]]
        return tl::make_unexpected(
            explain(lanes_, sender_.fault() ? sender_.fault() : receiver_.fault()));
      now = ticks();
      if (now >= stop_at_) stop();
      if (watch_.due(now)) [[unlikely]]
        HBMWIRE_TRY(look());
      if (!moved && traffic_.events) HBMWIRE_TRY(doze());
    }
    return PassResult{.messages = sender_.completed(),
                      .arrivals = receiver_.arrived(),
                      .wrong_sizes = receiver_.wrong_sizes(),
                      .ticks = now - begin};
  }

 private:
  static constexpr std::uint64_t kWithoutEnd = ~std::uint64_t{0};

  [[nodiscard]] bool timed() const noexcept { return traffic_.messages == 0; }

  [[nodiscard]] std::uint64_t messages() const noexcept {
    // Practically unlimited, but the count must fit into a wr_id.
    return timed() ? wire::kMaxPerfIterations : traffic_.messages;
  }

  [[nodiscard]] bool is_done() const noexcept {
    if (traffic_.sends && !sender_.is_done()) return false;
    if (!traffic_.receives || over_) return true;
    return traffic_.expected != 0 && receiver_.arrived() >= traffic_.expected;
  }

  /// Handles both directions once. Returns whether something was completed or arrived.
  template <Remote kRemote>
  bool round() noexcept {
    bool moved = false;
    if (traffic_.sends) moved = sender_.template step<kRemote>();
    // Looks for credits only when nothing else moves.
    if (traffic_.receives || (!moved && traffic_.sending.window != 0)) {
      moved = receiver_.step() || moved;
      if (receiver_.owes()) {  // completions make room for the credits that wait
        sender_.poll();
        receiver_.pay();
      }
    }
    return moved;
  }

  void keep_pace(std::uint64_t now) noexcept {
    if (now < next_burst_) return;
    sender_.set_budget(traffic_.pace.burst);
    next_burst_ += traffic_.pace.gap_ticks;
    // Messages that could not be sent in time are not made up for later, because the rate is a
    // limit.
    if (next_burst_ < now) next_burst_ = now;
  }

  void stop() noexcept {
    sender_.stop();
    sender_.set_budget(kWithoutEnd);  // the last lists need no pace
    stop_at_ = kWithoutEnd;
  }

  Outcome<void> look() {
    HBMWIRE_TRY(watch_.look(sender_.completed() + receiver_.arrived()));
    const bool sent = !traffic_.sends || sender_.is_done();
    over_ = sent && watch_.is_over();
    if (traffic_.unreliable && watch_.is_idle()) sender_.forgive();
    return {};
  }

  Outcome<void> doze() {
    HBMWIRE_TRY_ASSIGN(const bool armed, sleeper_.arm());
    // Armed just now: the queues must be polled once more. While a gap is kept, there may be no
    // completion that would wake this side.
    if (!armed || (traffic_.pace.gap_ticks != 0 && !sender_.is_done())) return {};
    return sleeper_.sleep();
  }

  Lanes& lanes_;
  const Traffic& traffic_;
  Sender sender_;
  Receiver& receiver_;
  Watch& watch_;
  Sleeper sleeper_;
  std::uint64_t stop_at_ = 0;
  std::uint64_t next_burst_ = 0;
  bool over_ = false;
};

}  // namespace

Failure explain(const Lanes& lanes, const Fault& fault) {
  if (fault.post_errno != 0) {
    return system_error(Stage::post, "ibv_post_send or ibv_post_recv", std::abs(fault.post_errno),
                        lanes.nic);
  }
  if (fault.poll_failed) return system_error(Stage::complete, "ibv_poll_cq", EIO, lanes.nic);
  return native::completion_error(static_cast<int>(fault.status), lanes.nic);
}

Outcome<void> start_receives(Lanes& lanes, Receiver& receiver) {
  if (receiver.start()) return {};
  return tl::make_unexpected(explain(lanes, receiver.fault()));
}

Outcome<PassResult> run_traffic(Lanes& lanes, const Traffic& traffic, Receiver& receiver,
                                Watch& watch) {
  TrafficLoop loop(lanes, traffic, receiver, watch);
  switch (traffic.remote) {
    case Remote::rdma:
      return loop.run<Remote::rdma>();
    case Remote::atomic:
      return loop.run<Remote::atomic>();
    default:
      return loop.run<Remote::none>();
  }
}

}  // namespace hbmwire::tools::perf

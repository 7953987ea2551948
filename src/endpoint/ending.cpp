// SPDX-License-Identifier: MIT
#include "endpoint/ending.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "endpoint/endpoint_state.hpp"
#include "endpoint/longest_end.hpp"

namespace hbmwire::detail {

using namespace std::chrono_literals;

Error Ending::not_ready() const noexcept {
  const std::string& peer = endpoint_.peer;
  if (endpoint_.worker->made.is_inherited())
    return endpoint_.worker->check_process(Stage::post).error();
  if (error_) return error_of_others();
  if (closed_here_)
    return make_error(Errc::cancelled, Stage::post, "the endpoint was closed", peer);
  return make_error(Errc::peer_failed, Stage::post, "the peer has closed the endpoint", peer,
                    Hint::peer_gone);
}

Result<void> Ending::check_reconnect() const {
  HBMWIRE_TRY(endpoint_.worker->check_process(Stage::connect));
  if (!endpoint_.dialed) {
    return tl::make_unexpected(make_error(Errc::not_supported, Stage::connect,
                                          "only the side that connected can do so again",
                                          endpoint_.peer, Hint::reconnect));
  }
  if (endpoint_.phase == EndpointPhase::ready || endpoint_.phase == EndpointPhase::ending) {
    return tl::make_unexpected(make_error(Errc::busy, Stage::connect,
                                          "the endpoint has not ended yet", endpoint_.peer,
                                          Hint::reconnect));
  }
  return {};
}

// --- broken

void Ending::fail(const Error& why, TransferState* culprit) noexcept {
  if (endpoint_.phase != EndpointPhase::ready) return;
  endpoint_.phase = EndpointPhase::ending;
  error_ = why;
  endpoint_.counts->broken.add(1);
  if (peer_left_ && why.code == Errc::peer_failed) {
    error_ = make_error(Errc::peer_failed, Stage::complete, "the peer has closed the endpoint",
                        endpoint_.peer, Hint::peer_gone);
  }
  culprit_ = culprit;
  has_culprit_ = culprit != nullptr;
  settle_by_ = Deadline::later(Clock::now(), endpoint_.options.peer_timeout);
  endpoint_.note_event();
  close_data();
  endpoint_.fail_waiting();
  // The peer's lane is closed, but its engine may still be at work.
  if (!peer_fenced_ || endpoint_.movers.ipc.asks()) endpoint_.control.say(wire::Fence{});
}

void Ending::mark_failed(TransferState& transfer) noexcept {
  transfer.next = failed_;
  failed_ = &transfer;
}

Error Ending::error_of_others() const noexcept {
  if (!has_culprit_ || error_->code == Errc::peer_failed) return *error_;
  return make_error(Errc::cancelled, Stage::complete,
                    "another transfer of the endpoint failed or was cancelled", endpoint_.peer,
                    Hint::other_transfer);
}

void Ending::advance(Clock::time_point at) noexcept {
  if (endpoint_.phase != EndpointPhase::ending) return;
  // This side's memory may be read and written until the NIC has given back all requests. If the
  // NIC does not, its queue pair is destroyed: without one it cannot touch the memory.
  constexpr auto kFlush = 1s;
  // The peer says Fenced when its engine has finished with this memory; until then the copy that it
  // was asked for counts as one `moving`. This end says Fenced without waiting for that: otherwise
  // each end would wait for the other.
  const bool asks = endpoint_.movers.ipc.asks();
  const RailMover* const mover = endpoint_.movers.rails.get();
  const bool rails_drained =
      mover == nullptr ||
      std::ranges::all_of(mover->rails(), [](const auto& rail) { return rail->outstanding == 0; });
  const bool given_back = close_data() && endpoint_.sends.outstanding() == 0 && rails_drained;
  const bool drained = given_back && endpoint_.movers.moving == (asks ? 1U : 0U);
  if (!drained && at < Deadline::later(settle_by_, kFlush)) return;
  if (!given_back) {
    log_line(LogLevel::warn, "a queue pair in ERROR gives back nothing: it is destroyed");
    endpoint_.sends.lane().completions().lose();
    cut_lanes();
  }
  if (std::exchange(must_answer_, false)) endpoint_.control.say(wire::Fenced{});
  if (drained && flush_failed_transfers()) return;
  const bool none_will_answer = endpoint_.control.is_dead() || endpoint_.watch.peer_has_ended();
  if (!peer_fenced_ && !none_will_answer && at < settle_by_) return;
  if (!asks) report();
}

/// When the NIC has given back all requests, its writes may still be on their way into this end's
/// device. Flushes them before the report. True: a flush is under way, and on_moved() follows.
bool Ending::flush_failed_transfers() noexcept {
  // Counts itself as moving until the end, so that a flush that fails at once does not report yet.
  const std::uint32_t others = endpoint_.movers.moving++;
  bool parts = true;
  while (std::exchange(parts, false)) {
    TransferState* rest = std::exchange(failed_, nullptr);
    while (rest != nullptr) {
      TransferState& transfer = *std::exchange(rest, rest->next);
      if (transfer.then == TransferState::Then::flush) {
        endpoint_.worker_nic.mover->make_visible(transfer);
      } else if ((transfer.at_end & AtEnd::kPart) != 0) {
        // This may put the whole transfer into the list, where it may need a flush: one more round.
        endpoint_.worker->fail(transfer, error_of_others(), peer_fenced_);
        parts = true;
      } else {
        mark_failed(transfer);
      }
    }
  }
  return --endpoint_.movers.moving > others;
}

void Ending::settle() noexcept {
  if (endpoint_.phase == EndpointPhase::ending) {
    advance(endpoint_.worker->now);
  } else if (failed_ != nullptr) {
    report();  // the others were reported when the wait for this one had lasted long enough
  }
}

void Ending::report() noexcept {
  endpoint_.phase = closed_here_ ? EndpointPhase::closed : EndpointPhase::failed;
  endpoint_.note_event();
  const auto with_hint = [&](Error why) {
    // This end broke the connection, and the peer may still move bytes.
    const bool ours = why.code == Errc::cancelled || why.code == Errc::timed_out;
    if (ours && !peer_fenced_) why.hint = Hint::peer_unsettled;
    return why;
  };
  const Error others = with_hint(error_of_others());
  const Error own = with_hint(*error_);
  while (failed_ != nullptr) {
    TransferState& transfer = *std::exchange(failed_, failed_->next);
    const bool is_culprit = &transfer == culprit_;
    if (is_culprit) culprit_ = nullptr;
    endpoint_.worker->fail(transfer, is_culprit ? own : others, peer_fenced_);
  }
}

void Ending::on_lost(const transport::CompletionQueue& lost) noexcept {
  if (lanes_cut_ || &endpoint_.sends.lane().completions() != &lost) return;
  fail(make_error(Errc::system, Stage::complete, "the completion queue can't be polled",
                  endpoint_.nic->info.name, Hint::completions_lost),
       nullptr);
  cut_lanes();
  if (endpoint_.phase == EndpointPhase::ending) report();
}

// --- messages from the peer

void Ending::on_fence() noexcept {
  endpoint_.movers.ring.take_all();
  // The peer closes its own lane before it sends Fence.
  peer_fenced_ = true;
  must_answer_ = true;
  fail(make_error(Errc::peer_failed, Stage::complete, "the peer broke the connection off",
                  endpoint_.peer, Hint::peer_broke_off),
       nullptr);
  if (endpoint_.phase == EndpointPhase::ending) {
    advance(endpoint_.worker->now);
  } else if (close_data() && std::exchange(must_answer_, false)) {
    // This end had ended before; no operation of the application is under way.
    endpoint_.control.say(wire::Fenced{});
  }
}

void Ending::on_fenced() noexcept {
  peer_fenced_ = true;
  peer_quiet_ = true;
  advance(endpoint_.worker->now);
}

void Ending::on_farewell() noexcept {
  // Messages in the peer's ring were sent before its goodbye.
  endpoint_.movers.ring.take_all();
  peer_left_ = true;
  endpoint_.note_event();
  if (endpoint_.phase != EndpointPhase::ready) return;
  if (endpoint_.waits_for_peer()) {
    // No answer will come any more.
    fail(make_error(Errc::peer_failed, Stage::complete, "the peer has said goodbye", endpoint_.peer,
                    Hint::peer_gone),
         nullptr);
  } else if (!endpoint_.is_busy()) {
    enter_closed();
  }
}

// --- the lanes

bool Ending::close_data() noexcept {
  if (data_closed_ || lanes_cut_) return true;
  const auto closed = endpoint_.sends.lane().to_error();
  if (!closed) log_line(LogLevel::warn, [&] { return describe(closed.error()); });
  data_closed_ = closed.has_value();
  if (endpoint_.movers.rails) endpoint_.movers.rails->close();
  return data_closed_;
}

void Ending::cut_lanes() noexcept {
  if (std::exchange(lanes_cut_, true)) return;
  note_cut();
  endpoint_.look_soon();
  endpoint_.sends.lane().cut();
  endpoint_.control.cut();
  endpoint_.forget_posted();
  if (endpoint_.movers.rails) endpoint_.movers.rails->cut();
}

// --- closed

void Ending::enter_closed() noexcept {
  endpoint_.phase = EndpointPhase::closed;
  endpoint_.note_event();
  endpoint_.messages.fail_receives(
      peer_left_ ? make_error(Errc::peer_failed, Stage::complete,
                              "the peer has closed the endpoint", endpoint_.peer, Hint::peer_gone)
                 : make_error(Errc::cancelled, Stage::complete, "the endpoint was closed",
                              endpoint_.peer));
  say_farewell();
}

void Ending::say_farewell() noexcept {
  if (!std::exchange(said_farewell_, true)) endpoint_.control.say(wire::Farewell{});
}

Result<void> Ending::close(const Wait& wait) {
  WorkerState& worker = *endpoint_.worker;
  HBMWIRE_TRY(worker.check_process(Stage::complete));
  Goodbye goodbye(endpoint_, wait.deadline);
  goodbye.go_by_clock();
  const auto over = [&] { return goodbye.over(); };
  if (const auto driven = worker.drive(wait, over); !goodbye.over()) {
    goodbye.give_up(driven.error());
    static_cast<void>(worker.drive({longest_end(endpoint_.options), -1}, over));
    // If this thread could not sleep, it has not waited for the end either: closes all the same.
    goodbye.finish();
  }
  if (goodbye.error()) return tl::make_unexpected(*goodbye.error());
  return {};
}

Result<Transfer> Ending::start_close(const Deadline& until) {
  HBMWIRE_TRY(endpoint_.worker->check_process(Stage::complete));
  if (goodbye_ && !goodbye_->over()) {
    return tl::make_unexpected(make_error(Errc::busy, Stage::complete,
                                          "the endpoint is being closed already", endpoint_.peer));
  }
  auto goodbye = std::make_unique<Goodbye>(endpoint_, until);
  HBMWIRE_TRY_ASSIGN(Transfer transfer, goodbye->hand_over());
  goodbye_ = std::move(goodbye);
  return transfer;
}

void Ending::close_here(const std::optional<Error>& why) noexcept {
  closed_here_ = true;
  if (endpoint_.phase == EndpointPhase::ready && why) fail(*why, nullptr);
}

bool Ending::no_goodbye_comes() const noexcept {
  return endpoint_.control.is_dead() || peer_fenced_ || endpoint_.watch.peer_has_ended();
}

void Ending::abandon() noexcept {
  // A child by fork(2) drops its copy, and says nothing on its parent's behalf.
  if (abandoned_ || endpoint_.worker->made.is_inherited()) return;
  abandoned_ = true;
  settle_by_ = Deadline::later(Clock::now(), endpoint_.options.peer_timeout);
  endpoint_.look_soon();
  if (endpoint_.phase == EndpointPhase::ready && endpoint_.is_busy()) {
    fail(make_error(Errc::cancelled, Stage::complete, "the endpoint was destroyed", endpoint_.peer),
         nullptr);
  } else if (endpoint_.phase == EndpointPhase::ready) {
    enter_closed();
  }
  // The senders learn from the end of the endpoint that their messages are gone.
  endpoint_.messages.drop_queued();
}

void Ending::close_lanes(Clock::time_point at) noexcept {
  ControlLane& control = endpoint_.control;
  if (control.is_closing() || lanes_cut_) return;
  if (!control.has_said_all() && !control.is_dead() && at < settle_by_) return;
  if (close_data()) control.close();
}

void Ending::drain_receives(Clock::time_point at) noexcept {
  if (receives_back_ || !data_closed_ || !endpoint_.control.is_closing()) return;
  // A driver that does not tell of the last receive (an old soft-RoCE) may keep a receive for good.
  constexpr auto kPatience = 1s;
  if (!draining_since_) draining_since_ = at;
  const bool told =
      endpoint_.sends.lane().took_last_receive() && endpoint_.control.took_last_receive();
  if (!told && at - *draining_since_ < kPatience) return;
  receives_back_ = true;
  if (!endpoint_.messages.receives().are_shared()) return;
  auto& queue = static_cast<transport::VerbsCompletionQueue&>(endpoint_.sends.lane().completions());
  // Polls as many completions as the queue may have held at the start; later ones are not waited
  // for.
  endpoint_.worker->handle_completions(
      queue, queue.capacity() / transport::VerbsCompletionQueue::kBatch + 1);
  if (told) {
    endpoint_.messages.receives().all_are_back();
    endpoint_.control.receives().all_are_back();
  } else if (!std::exchange(endpoint_.worker_nic.told_of_silence, true)) {
    log_line(LogLevel::warn, [&] {
      return "the driver of " + endpoint_.nic->info.name +
             " does not tell when a queue pair has taken its last shared receive: each endpoint "
             "that ends may cost one";
    });
  }
}

void Ending::end_now() noexcept {
  fail(make_error(Errc::cancelled, Stage::complete, "the worker has gone", endpoint_.peer),
       nullptr);
  cut_lanes();
  if (endpoint_.phase == EndpointPhase::ending) report();
}

}  // namespace hbmwire::detail

// SPDX-License-Identifier: MIT
#include "hbmwire/worker.hpp"

#include <algorithm>

#include "base/guarded.hpp"
#include "counters/reader.hpp"
#include "endpoint/endpoint_state.hpp"

namespace hbmwire {

Result<Counters> Worker::counters() const {
  return counters::read_own({.worker = state_->counts.worker_number()});
}

Result<Worker> Worker::create(const Context& context, const WorkerOptions& options) {
  return create(context, options, WorkerThreads::one);
}

Result<Worker> Worker::create(const Context& context, const WorkerOptions& options,
                              WorkerThreads threads) {
  return guarded(Stage::open, [&]() -> Result<Worker> {
    HBMWIRE_TRY_ASSIGN(auto state, detail::WorkerState::create(context, options, threads));
    return Worker(std::move(state));
  });
}

std::size_t Worker::progress() {
  const detail::WorkerLock lock(*state_);
  return state_->progress();
}

int Worker::fd() const noexcept { return state_->ready.fd(); }

Result<bool> Worker::arm() {
  return guarded(Stage::complete, [&]() -> Result<bool> {
    const detail::WorkerLock lock(*state_);
    HBMWIRE_TRY(state_->check_process(Stage::complete));
    // With a thread of the library, that thread watches everything else.
    bool may_sleep = true;
    if (!state_->options.progress_thread) {
      HBMWIRE_TRY_ASSIGN(may_sleep, state_->waiting.arm());
    }
    state_->ready.arm();
    return may_sleep && state_->ready.empty();
  });
}

std::chrono::milliseconds Worker::wake_after() const noexcept {
  const detail::WorkerLock lock(*state_);
  return state_->wake_after();
}

Result<void> Worker::wait(const Wait& wait) {
  return guarded(Stage::complete, [&]() -> Result<void> {
    const detail::WorkerLock lock(*state_);
    HBMWIRE_TRY(state_->check_process(Stage::complete));
    // Results are ready, so there is no sleep. Other work must go on all the same.
    if (!state_->ready.empty()) {
      state_->progress();
      return {};
    }
    const std::uint64_t before = state_->event_count;
    return state_->drive(wait,
                         [&] { return state_->event_count != before || !state_->ready.empty(); });
  });
}

std::optional<Done> Worker::next_done() {
  const detail::WorkerLock lock(*state_);
  return state_->next_done();
}

std::optional<IncomingMessage> Worker::next_message() {
  const detail::WorkerLock lock(*state_);
  if (state_->made.is_inherited()) return std::nullopt;
  if (!state_->ready.has_message()) state_->progress();
  detail::UnexpectedMessage* const message = state_->ready.take_message();
  if (message == nullptr) return std::nullopt;
  message->keeps_worker = state_;
  message->endpoint->messages.hand_out(*message);
  return handle_of<IncomingMessage>(message);
}

namespace {

/// Whether all transfers are of `worker`; empty handles count as such.
bool are_of(const detail::WorkerState& worker, std::span<const Transfer> transfers) noexcept {
  return std::ranges::all_of(transfers, [&](const Transfer& transfer) {
    return !transfer || state_of(transfer).worker == &worker;
  });
}

tl::unexpected<Error> refuse(const char* why) {
  return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::complete, why));
}

bool is_over(const Transfer& transfer) noexcept { return transfer && state_of(transfer).is_over(); }

}  // namespace

Result<std::optional<std::size_t>> Worker::wait_any(std::span<const Transfer> transfers,
                                                    const Wait& wait) {
  using Found = std::optional<std::size_t>;
  return guarded(Stage::complete, [&]() -> Result<Found> {
    const detail::WorkerLock lock(*state_);
    if (!are_of(*state_, transfers)) return refuse("a transfer is another worker's");
    if (std::ranges::none_of(transfers, &Transfer::operator bool))
      return refuse("there is no transfer to wait for");
    Found found;
    HBMWIRE_TRY(state_->drive_until(wait, [&] {
      const auto first = std::ranges::find_if(transfers, is_over);
      if (first != transfers.end()) found = static_cast<std::size_t>(first - transfers.begin());
      return found.has_value();
    }));
    return found;
  });
}

Result<bool> Worker::wait_all(std::span<const Transfer> transfers, const Wait& wait) {
  return guarded(Stage::complete, [&]() -> Result<bool> {
    const detail::WorkerLock lock(*state_);
    if (!are_of(*state_, transfers)) return refuse("a transfer is another worker's");
    std::size_t over = 0;  // so many are over, from the front
    HBMWIRE_TRY(state_->drive_until(wait, [&] {
      while (over < transfers.size() && (!transfers[over] || is_over(transfers[over]))) ++over;
      return over == transfers.size();
    }));
    if (over < transfers.size()) return false;
    for (const Transfer& transfer : transfers) {
      if (transfer && state_of(transfer).status == detail::TransferState::Status::failed)
        return tl::make_unexpected(state_->transfers.error_of(state_of(transfer)));
    }
    return true;
  });
}

Result<Transfer> Worker::flush(const Slice& memory) {
  return guarded(Stage::post, [&]() -> Result<Transfer> {
    const detail::WorkerLock lock(*state_);
    return state_->flush(memory);
  });
}

const Context& Worker::context() const noexcept { return state_->context; }

}  // namespace hbmwire

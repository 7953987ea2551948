// SPDX-License-Identifier: MIT
#include "trace/tracer.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <new>
#include <system_error>
#include <utility>

#include "base/guarded.hpp"
#include "base/log.hpp"
#include "base/one_of_process.hpp"
#include "base/signals.hpp"
#include "base/thread_failure.hpp"

namespace hbmwire::detail {

namespace {

using namespace std::chrono_literals;

// A worker needs at least some 10 ms to fill its ring.
constexpr auto kBetweenRounds = 4ms;

constinit OneOfProcess<Tracer> tracer_of_process;

template <class Clock>
std::int64_t now_ns() noexcept {
  return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
}

Error none_is_on() noexcept {
  return make_error(Errc::not_found, Stage::configure, "the trace has ended already");
}

}  // namespace

Tracer& Tracer::of_process() { return tracer_of_process.get(); }

// --- start and stop

Result<std::pair<std::uint64_t, std::string>> Tracer::start(const TraceOptions& options) {
  std::unique_lock lock(mutex_);
  HBMWIRE_TRY(begin(options));
  std::pair begun{number_, std::move(on_->path)};
  tell_of_other_name(lock);
  return begun;
}

Result<void> Tracer::start_as_set(const TraceOptions& options) {
  if (options.file.empty()) return {};
  std::unique_lock lock(mutex_);
  if (was_set_ || on_) return {};
  HBMWIRE_TRY(begin(options));
  was_set_ = true;
  tell_of_other_name(lock);
  return {};
}

/// Unlocks first, because the log calls the program's sink.
void Tracer::tell_of_other_name(std::unique_lock<std::mutex>& lock) const {
  const std::string note = std::move(on_->note);
  lock.unlock();
  if (!note.empty()) log_line(LogLevel::warn, note);
}

Result<void> Tracer::begin(const TraceOptions& options) {
  if (options.file.empty()) {
    return tl::make_unexpected(
        make_error(Errc::invalid_argument, Stage::configure, "a trace needs a file"));
  }
  if (on_) {
    return tl::make_unexpected(
        make_error(Errc::busy, Stage::configure, "a trace is on already: stop it before"));
  }
  // Registered before all else, because a failure later would leave a part of the trace behind.
  static const bool ends_at_exit = std::atexit([] { stop_at_exit(); }) == 0;
  if (!ends_at_exit) return tl::make_unexpected(out_of_memory(Stage::configure));
  HBMWIRE_TRY_ASSIGN(TraceFile file, TraceFile::create(options.file, options.most_bytes));
  auto run = std::make_unique<TraceRun>(std::move(file), static_cast<std::uint32_t>(::getpid()));
  run->events.begin(run->file.text(), now_ns<std::chrono::steady_clock>(),
                    now_ns<std::chrono::system_clock>());
  if (!run->file.write()) return tl::make_unexpected(*run->file.error());
  rings_.clear();
  stopping_ = false;
  return or_undo(
      [&]() -> Result<void> {
        for (TraceSource* const source : sources_) attach(*source);
        on_ = std::move(run);
        HBMWIRE_TRY(start_thread());
        ++number_;
        on_->file.keep();
        return {};
      },
      [&] { detach_all(); });
}

/// On an error, nothing of the trace is left.
Result<void> Tracer::start_thread() {
  try {
    const SignalsBlocked blocked;
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    detach_all();
    on_.reset();
    return tl::make_unexpected(
        thread_failure(Stage::configure, error.code().value(), "a thread for the trace"));
  } catch (const std::bad_alloc&) {
    on_.reset();
    throw;
  }
  return {};
}

Result<TraceCounts> Tracer::stop(std::uint64_t number) {
  // Checked before the lock is taken: the parent's writer may have held it during the fork(2).
  if (is_foreign()) return tl::make_unexpected(none_is_on());
  std::thread writer;
  {
    const std::scoped_lock lock(mutex_);
    if (!on_ || number_ != number || stopping_) return tl::make_unexpected(none_is_on());
    detach_all();
    stopping_ = true;
    woken_.notify_all();
    writer = std::move(thread_);
  }
  writer.join();
  const std::scoped_lock lock(mutex_);
  const auto ended = std::exchange(on_, nullptr);
  rings_.clear();
  std::erase_if(peers_, [](const auto& peer) { return peer.second.left.has_value(); });
  if (ended->file.error()) return tl::make_unexpected(*ended->file.error());
  return ended->counts;
}

/// Completes the file when the process ends by exit(3) or returns from main().
void Tracer::stop_at_exit() noexcept {
  Tracer* const known = tracer_of_process.existing();
  if (known == nullptr) return;
  std::uint64_t number = 0;
  bool ended_early = false;
  {
    const std::scoped_lock lock(known->mutex_);
    if (!known->on_) return;
    number = known->number_;
    ended_early = known->on_->ended;
  }
  const auto stopped = guarded(Stage::complete, [&] { return known->stop(number); });
  if (!stopped && !ended_early) log_line(LogLevel::warn, [&] { return describe(stopped.error()); });
}

// --- workers and endpoints

void Tracer::attach(TraceSource& source) {
  if (!source.owned_)
    source.owned_ = std::make_shared<TraceRing>(source.transfers_, source.number_);
  // Drops records that came too late for an earlier trace.
  source.owned_->begin_anew(now_ns<std::chrono::steady_clock>());
  rings_.push_back(source.owned_);
  source.ring_.store(source.owned_.get());
  *source.attends_ = true;
}

void Tracer::detach_all() noexcept {
  for (TraceSource* const source : sources_) source->ring_.store(nullptr);
}

void Tracer::add(TraceSource& source) {
  const std::scoped_lock lock(mutex_);
  sources_.push_back(&source);
  source.number_ = ++workers_;
  source.tracer_ = this;
  if (on_ && !stopping_ && !on_->ended) attach(source);
}

void Tracer::remove(TraceSource& source) noexcept {
  const std::scoped_lock lock(mutex_);
  std::erase(sources_, &source);
}

void Tracer::add_peer(std::uint32_t connection, TracePeer peer) {
  const std::scoped_lock lock(mutex_);
  peers_.insert_or_assign(connection, Peer{std::move(peer), {}});
}

void Tracer::remove_peer(std::uint32_t connection) noexcept {
  const std::scoped_lock lock(mutex_);
  const auto peer = peers_.find(connection);
  if (peer == peers_.end()) return;
  // A ring may still hold records of this endpoint.
  if (on_ && !on_->ended) {
    peer->second.left = round_;
  } else {
    peers_.erase(peer);
  }
}

/// Forgets endpoints that ended before the last look at all rings.
void Tracer::forget_gone() {
  for (auto peer = peers_.begin(); peer != peers_.end();) {
    if (!peer->second.left || *peer->second.left >= round_) {
      ++peer;
      continue;
    }
    on_->events.forget(peer->first);
    peer = peers_.erase(peer);
  }
}

// --- the writing thread

void Tracer::run() noexcept {
  static_cast<void>(::pthread_setname_np(::pthread_self(), "hbmwire-trace"));
  std::unique_lock lock(mutex_);
  for (bool last = false; !last;) {
    if (!stopping_) woken_.wait_for(lock, kBetweenRounds);
    last = stopping_;
    write_round(lock);
    if (!on_->file.error()) continue;
    last = on_->ended = true;
    detach_all();
    rings_.clear();
  }
  const bool ends_early = on_->ended && !stopping_;
  lock.unlock();
  if (ends_early) {
    log_line(LogLevel::warn,
             [&] { return "the trace ends here: " + describe(*on_->file.error()); });
  }
  TraceCounts& counts = on_->counts;
  // A file that had to be shortened has fewer transfers than were added to it.
  counts.dropped_full += counts.transfers - on_->file.transfers();
  counts.transfers = on_->file.transfers();
  const auto text = guarded(Stage::complete, [&]() -> Result<std::string> {
    std::string end;
    on_->events.end(end, now_ns<std::chrono::steady_clock>(), counts,
                    on_->file.error() ? describe(*on_->file.error()) : std::string());
    return end;
  });
  if (text) on_->file.finish(*text);
}

/// Takes the records out of all rings, without the lock. Other threads may add rings meanwhile, but
/// never remove one.
void Tracer::write_round(std::unique_lock<std::mutex>& lock) noexcept {
  ++round_;
  for (std::size_t i = 0; i < rings_.size(); ++i) {
    // If this is the last reference to the ring, its worker has gone, and this look is the last
    // one.
    const bool gone = rings_[i].use_count() == 1;
    const std::shared_ptr<TraceRing> ring = gone ? std::move(rings_[i]) : rings_[i];
    lock.unlock();
    ring->drain([&](const TraceRecord& record) { add_record(record, ring->worker()); });
    on_->counts.dropped_busy += ring->take_dropped();
    lock.lock();
  }
  std::erase(rings_, nullptr);
  forget_gone();
  lock.unlock();
  static_cast<void>(on_->file.write());
  lock.lock();
}

void Tracer::add_record(const TraceRecord& record, std::uint32_t worker) noexcept {
  TraceFile& file = on_->file;
  const std::size_t before = file.text().size();
  const auto added = guarded(Stage::complete, [&]() -> Result<bool> {
    if (file.error()) return false;
    if (on_->events.needs_peer(record)) {
      const std::scoped_lock lock(mutex_);
      const auto peer = peers_.find(record.connection);
      on_->events.set_peer(record.connection,
                           peer == peers_.end() ? TracePeer{{}, {}, worker} : peer->second.names);
    }
    on_->events.add(file.text(), record, worker);
    if (!file.accept(before)) return false;
    return true;
  });
  if (!added) file.text().resize(before);
  ++(added && *added ? on_->counts.transfers : on_->counts.dropped_full);
  if (file.is_due()) static_cast<void>(file.write());
}

}  // namespace hbmwire::detail

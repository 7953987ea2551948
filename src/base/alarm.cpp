// SPDX-License-Identifier: MIT
#include "base/alarm.hpp"

#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/forks.hpp"
#include "base/one_of_process.hpp"
#include "base/signals.hpp"
#include "base/thread_failure.hpp"

namespace hbmwire {

/// The alarms of one process, and the thread that rings them.
class Alarms {
 public:
  static Alarms& of_process();

  /// Whether this belongs to a parent by fork(2).
  [[nodiscard]] bool foreign() const noexcept { return made_.is_inherited(); }

  Result<Alarm> add(Alarm::Clock::time_point when, std::function<void()> ring);
  void remove(const Alarm& alarm);

 private:
  using Key = std::pair<Alarm::Clock::time_point, std::uint64_t>;

  Result<void> start();
  void run(std::uint64_t thread);
  void ring_first(std::unique_lock<std::mutex>& lock);

  MadeHere made_;

  std::mutex mutex_;
  std::condition_variable changed_;  // the first alarm is another one, or the thread must end
  std::condition_variable rung_;
  std::map<Key, std::function<void()>> due_;
  std::size_t alarms_ = 0;     // existing Alarm objects, rung or not
  std::uint64_t last_id_ = 0;  // the last id that an alarm got
  std::uint64_t ringing_ = 0;  // the id of the alarm that rings now; 0: none
  std::uint64_t thread_ = 0;   // the current thread's number; a thread with another one ends
  bool serving_ = false;       // the current thread has not decided to end
  std::thread joinable_;
};

Alarms& Alarms::of_process() {
  static constinit OneOfProcess<Alarms> alarms;
  return alarms.get();
}

Result<Alarm> Alarms::add(Alarm::Clock::time_point when, std::function<void()> ring) {
  const std::scoped_lock lock(mutex_);
  HBMWIRE_TRY(start());
  const std::uint64_t id = ++last_id_;
  const auto place = due_.emplace(Key{when, id}, std::move(ring)).first;
  ++alarms_;
  if (place == due_.begin()) changed_.notify_one();
  return Alarm(this, when, id);
}

// Called with the lock held. A thread that runs needs the lock before anything else.
Result<void> Alarms::start() {
  if (serving_) return {};
  // The previous thread decided to end while it held the lock, and takes it no more: joining it
  // here cannot deadlock.
  if (joinable_.joinable()) joinable_.join();
  try {
    const SignalsBlocked blocked;
    joinable_ = std::thread([this, number = ++thread_] { run(number); });
  } catch (const std::system_error& error) {
    return tl::make_unexpected(
        thread_failure(Stage::register_memory, error.code().value(), "a thread for expiry"));
  }
  serving_ = true;
  return {};
}

void Alarms::run(std::uint64_t thread) {
  std::unique_lock lock(mutex_);
  while (thread == thread_ && !due_.empty()) {
    const Alarm::Clock::time_point first = due_.begin()->first.first;
    if (first <= Alarm::Clock::now()) {
      ring_first(lock);
    } else {
      changed_.wait_until(lock, first);
    }
  }
  if (thread == thread_) serving_ = false;
}

void Alarms::ring_first(std::unique_lock<std::mutex>& lock) {
  const auto first = due_.begin();
  ringing_ = first->first.second;
  const std::function<void()> ring = std::move(first->second);
  due_.erase(first);
  lock.unlock();
  ring();
  lock.lock();
  ringing_ = 0;
  rung_.notify_all();
}

void Alarms::remove(const Alarm& alarm) {
  std::thread last;
  {
    std::unique_lock lock(mutex_);
    due_.erase(Key{alarm.when_, alarm.id_});
    rung_.wait(lock, [&] { return ringing_ != alarm.id_; });
    if (--alarms_ == 0) {
      // The new number tells the old thread to end. An alarm that is set meanwhile starts a thread
      // of its own, so that the join below does not wait for that alarm.
      ++thread_;
      serving_ = false;
      last = std::move(joinable_);
    }
    // Without a due alarm the thread must end. If others are due, it need not be woken now: it
    // wakes at this alarm's time, finds the alarm gone, and sleeps on.
    if (due_.empty()) changed_.notify_all();
  }
  if (last.joinable()) last.join();
}

Result<Alarm> Alarm::set(Clock::time_point when, std::function<void()> ring) {
  return Alarms::of_process().add(when, std::move(ring));
}

void Alarm::reset() noexcept {
  Alarms* const alarms = std::exchange(alarms_, nullptr);
  if (alarms != nullptr && !alarms->foreign()) alarms->remove(*this);
}

}  // namespace hbmwire

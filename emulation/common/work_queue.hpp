// SPDX-License-Identifier: MIT
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace hbmwire::emulation {

/// How far a queue has come. Shared with the events recorded on it, which may outlive it.
class QueueProgress {
 public:
  /// The number of the job that is posted with it.
  std::uint64_t post();
  void complete(int status);

  void wait(std::uint64_t job);
  [[nodiscard]] bool done(std::uint64_t job) const;
  [[nodiscard]] std::uint64_t posted() const;

  [[nodiscard]] bool idle() const { return done(posted()); }

  /// Of the first job that failed; the jobs after it are not run. 0: none has.
  [[nodiscard]] int status() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t posted_ = 0;
  std::uint64_t completed_ = 0;
  int status_ = 0;
};

/// A queue of DMA jobs and the thread that does them, in order: what streams of the vendors'
/// libraries are made of. A job returns the vendor's status, which is 0 for success.
class WorkQueue {
 public:
  using Job = std::function<int()>;

  /// Each job is delayed by that much, so that programs that forget to synchronise are found out.
  explicit WorkQueue(std::uint32_t delay_us);
  /// Waits for the jobs posted so far.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void post(Job job);

  [[nodiscard]] const std::shared_ptr<QueueProgress>& progress() const { return progress_; }

 private:
  void run();

  std::uint32_t delay_us_;
  std::shared_ptr<QueueProgress> progress_ = std::make_shared<QueueProgress>();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool stop_ = false;
  std::thread thread_;
};

/// A point in a queue's work; before it is recorded it is complete.
struct QueueEvent {
  std::shared_ptr<QueueProgress> progress;
  std::uint64_t job = 0;
};

}  // namespace hbmwire::emulation

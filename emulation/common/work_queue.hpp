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

/// The progress of a queue. Events recorded on the queue share it and may outlive the queue.
class QueueProgress {
 public:
  /// Counts a posted job and returns its number.
  std::uint64_t post();
  /// Counts a job as complete, with its status.
  void complete(int status);

  void wait(std::uint64_t job);
  [[nodiscard]] bool done(std::uint64_t job) const;
  [[nodiscard]] std::uint64_t posted() const;

  [[nodiscard]] bool idle() const { return done(posted()); }

  /// The status of the first job that failed; later jobs are not run. 0: none has failed.
  [[nodiscard]] int status() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t posted_ = 0;
  std::uint64_t completed_ = 0;
  int status_ = 0;
};

/// A queue of DMA jobs and the thread that runs them in order. Streams of the vendors' libraries
/// are built on it. A job returns the vendor's status, which is 0 for success.
class WorkQueue {
 public:
  using Job = std::function<int()>;

  /// `delay_us` delays each job, so that programs that forget to synchronise are noticed.
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

/// A point in a queue's work. It counts as complete until it is recorded.
struct QueueEvent {
  std::shared_ptr<QueueProgress> progress;
  std::uint64_t job = 0;
};

}  // namespace hbmwire::emulation

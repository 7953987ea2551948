// SPDX-License-Identifier: MIT
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "emulation/gaudi/abi/synapse.h"

namespace hbmwire::emulation::gaudi {

/// How far a stream has come. Shared with the events recorded on it, which may outlive it.
class StreamProgress {
 public:
  /// The number of the job that is posted with it.
  std::uint64_t post();
  void complete(synStatus status);

  void wait(std::uint64_t job);
  [[nodiscard]] bool done(std::uint64_t job) const;
  [[nodiscard]] std::uint64_t posted() const;

  [[nodiscard]] bool idle() const { return done(posted()); }

  /// Of the first job that failed; the jobs after it are not run.
  [[nodiscard]] synStatus status() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t posted_ = 0;
  std::uint64_t completed_ = 0;
  synStatus status_ = synSuccess;
};

/// A queue of DMA jobs and the thread that does them, in order.
class Stream {
 public:
  using Job = std::function<synStatus()>;

  /// Each job is delayed by that much, so that programs that forget to synchronise are found out.
  explicit Stream(std::uint32_t delay_us);
  /// Waits for the jobs posted so far.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void post(Job job);

  [[nodiscard]] const std::shared_ptr<StreamProgress>& progress() const { return progress_; }

 private:
  void run();

  std::uint32_t delay_us_;
  std::shared_ptr<StreamProgress> progress_ = std::make_shared<StreamProgress>();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool stop_ = false;
  std::thread thread_;
};

/// A point in a stream's work; before it is recorded it is complete.
struct Event {
  std::shared_ptr<StreamProgress> progress;
  std::uint64_t job = 0;
};

}  // namespace hbmwire::emulation::gaudi

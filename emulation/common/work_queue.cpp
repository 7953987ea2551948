// SPDX-License-Identifier: MIT
#include "emulation/common/work_queue.hpp"

#include <pthread.h>

#include <chrono>
#include <csignal>
#include <utility>

namespace hbmwire::emulation {

std::uint64_t QueueProgress::post() {
  const std::lock_guard lock(mutex_);
  return ++posted_;
}

void QueueProgress::complete(int status) {
  {
    const std::lock_guard lock(mutex_);
    ++completed_;
    if (status_ == 0) status_ = status;
  }
  changed_.notify_all();
}

void QueueProgress::wait(std::uint64_t job) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return completed_ >= job; });
}

bool QueueProgress::done(std::uint64_t job) const {
  const std::lock_guard lock(mutex_);
  return completed_ >= job;
}

std::uint64_t QueueProgress::posted() const {
  const std::lock_guard lock(mutex_);
  return posted_;
}

int QueueProgress::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

WorkQueue::WorkQueue(std::uint32_t delay_us) : delay_us_(delay_us) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the application's signals are not for this thread
  try {
    thread_ = std::thread([this] { run(); });
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

WorkQueue::~WorkQueue() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void WorkQueue::post(Job job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
    progress_->post();
  }
  changed_.notify_all();
}

void WorkQueue::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    if (delay_us_ != 0) std::this_thread::sleep_for(std::chrono::microseconds(delay_us_));
    progress_->complete(progress_->status() == 0 ? job() : 0);
    lock.lock();
  }
}

}  // namespace hbmwire::emulation

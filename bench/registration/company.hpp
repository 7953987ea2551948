// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "bench/common/peer.hpp"

namespace hbmwire::bench {

/// A second thread, on the second CPU, that repeats the same work between start() and stop(), and
/// sleeps at other times.
class Company {
 public:
  explicit Company(std::function<void()> work)
      : work_(std::move(work)), thread_([this](const std::stop_token& stop) {
          pin(Cpus::allowed().second);
          for (;;) {
            if (!wanted_.load(std::memory_order_acquire)) {
              at_work_.store(false, std::memory_order_release);
              wanted_.wait(false, std::memory_order_acquire);
            }
            if (stop.stop_requested()) return;
            work_();
            at_work_.store(true, std::memory_order_release);
          }
        }) {}

  Company(const Company&) = delete;
  Company& operator=(const Company&) = delete;
  Company(Company&&) = delete;
  Company& operator=(Company&&) = delete;

  ~Company() {
    thread_.request_stop();
    wake();  // a sleeping thread would not see the request
  }

  /// Returns when the other thread is at work.
  void start() {
    wake();
    spin_until([this] { return at_work_.load(std::memory_order_acquire); });
  }

  /// Returns when the other thread has done its last piece of work.
  void stop() {
    wanted_.store(false, std::memory_order_release);
    spin_until([this] { return !at_work_.load(std::memory_order_acquire); });
  }

 private:
  void wake() {
    wanted_.store(true, std::memory_order_release);
    wanted_.notify_one();
  }

  std::function<void()> work_;
  std::atomic<bool> wanted_{false};
  std::atomic<bool> at_work_{false};
  std::jthread thread_;
};

}  // namespace hbmwire::bench

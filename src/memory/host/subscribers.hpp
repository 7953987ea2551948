// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace hbmwire::memory::host {

/// Functions that one thread calls in turn, each as long as its subscriber holds a handle.
/// Thread-safe, also within the calls.
class Subscribers : public std::enable_shared_from_this<Subscribers> {
 public:
  /// The function is called during the life of its handle. Destroying the handle waits for a
  /// running call, except within that call: so do not hold a lock that the function takes. In a
  /// child by fork(2), where the calling thread does not exist, it does not wait.
  using Handle = std::shared_ptr<const void>;

  Handle add(std::function<void()> function);

  /// Calls all functions.
  void call() noexcept;

 private:
  struct Entry;

  void remove(const std::shared_ptr<Entry>& entry) noexcept;

  std::mutex mutex_;
  std::vector<std::shared_ptr<Entry>> entries_;
};

}  // namespace hbmwire::memory::host

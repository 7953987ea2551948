// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace hbmwire::memory::host {

/// Functions that one thread calls in turn, for as long as whoever wants to be called holds a
/// handle. Thread-safe, also from within the calls.
class Subscribers : public std::enable_shared_from_this<Subscribers> {
 public:
  /// While it lives, calls go to the function. Its destruction waits for a call that is going on,
  /// but from within that call; so hold no lock over it which the function takes. In a child by
  /// fork(2), where nobody calls any more, it waits for nothing.
  using Handle = std::shared_ptr<const void>;

  Handle add(std::function<void()> function);

  /// Calls all there are.
  void call() noexcept;

 private:
  struct Entry;

  void remove(const std::shared_ptr<Entry>& entry) noexcept;

  std::mutex mutex_;
  std::vector<std::shared_ptr<Entry>> entries_;
};

}  // namespace hbmwire::memory::host

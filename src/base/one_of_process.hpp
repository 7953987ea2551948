// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <memory>

#include "base/forks.hpp"

namespace hbmwire {

/// The single T of a process. It is made on first use and never destroyed, because destructors of
/// other static objects may still need it. A child by fork(2) gets a new one: its parent's may be
/// locked by a thread that the child lacks. Thread-safe.
template <class T>
class OneOfProcess {
 public:
  constexpr OneOfProcess() noexcept = default;
  OneOfProcess(const OneOfProcess&) = delete;
  OneOfProcess& operator=(const OneOfProcess&) = delete;
  ~OneOfProcess() = default;

  /// Null if this process has not made one yet.
  [[nodiscard]] T* existing() const noexcept {
    Made* const known = current_.load(std::memory_order_acquire);
    return is_ours(known) ? &known->value : nullptr;
  }

  /// May throw std::bad_alloc.
  [[nodiscard]] T& get() {
    Made* known = current_.load(std::memory_order_acquire);
    while (!is_ours(known)) {
      auto fresh = std::make_unique<Made>();
      fresh->parents = known;
      // Pairs with the load above. If another thread was faster, its object is used.
      if (current_.compare_exchange_strong(known, fresh.get(), std::memory_order_acq_rel))
        known = fresh.release();
    }
    return known->value;
  }

 private:
  struct Made {
    MadeHere made;
    const Made* parents = nullptr;  // keeps the parent's object reachable, for leak checkers
    T value;
  };

  [[nodiscard]] static bool is_ours(const Made* made) noexcept {
    return made != nullptr && !made->made.is_inherited();
  }

  std::atomic<Made*> current_{nullptr};
};

}  // namespace hbmwire

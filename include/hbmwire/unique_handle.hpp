// SPDX-License-Identifier: MIT
#pragma once

#include <utility>

namespace hbmwire {

/// Move-only owner of a C handle. `Traits` supplies `type`, `null()` and `destroy(type) noexcept`.
template <class Traits>
class UniqueHandle {
 public:
  using type = typename Traits::type;

  UniqueHandle() noexcept = default;

  /// Owns `handle` from now on.
  explicit UniqueHandle(type handle) noexcept : handle_(handle) {}

  UniqueHandle(UniqueHandle&& other) noexcept : handle_(other.release()) {}

  UniqueHandle& operator=(UniqueHandle&& other) noexcept {
    if (this != &other) {
      reset();
      handle_ = other.release();
    }
    return *this;
  }

  UniqueHandle(const UniqueHandle&) = delete;
  UniqueHandle& operator=(const UniqueHandle&) = delete;

  ~UniqueHandle() { reset(); }

  /// The handle, which stays owned; `Traits::null()` without one.
  [[nodiscard]] type get() const noexcept { return handle_; }

  /// Whether it owns a handle.
  explicit operator bool() const noexcept { return handle_ != Traits::null(); }

  /// Gives the handle up without destroying it.
  [[nodiscard]] type release() noexcept { return std::exchange(handle_, Traits::null()); }

  /// Destroys the handle, if there is one.
  void reset() noexcept {
    if (handle_ != Traits::null()) Traits::destroy(release());
  }

 private:
  type handle_ = Traits::null();
};

}  // namespace hbmwire

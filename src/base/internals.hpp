// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <utility>

namespace hbmwire {

namespace detail {

/// The only friend of the public classes that hold a pointer to their state. The library reads that
/// pointer, and makes such objects, through this class. It is not installed, so that applications
/// cannot.
struct Internals {
  template <class Handle>
  [[nodiscard]] static auto& state(Handle& handle) noexcept {
    return handle.state_;
  }

  template <class Handle, class... State>
  [[nodiscard]] static Handle make(State&&... state) noexcept {
    return Handle(std::forward<State>(state)...);
  }

  /// MemoryDomain::release(), for the last Allocation of a piece of memory.
  template <class Domain>
  static void release(Domain& domain, std::uint64_t address) noexcept {
    domain.release(address);
  }
};

}  // namespace detail

/// The state behind a public handle; shared_state_of() gives the pointer that the handle holds.
template <class Handle>
[[nodiscard]] auto& state_of(const Handle& handle) noexcept {
  return *detail::Internals::state(handle);
}

template <class Handle>
[[nodiscard]] const auto& shared_state_of(const Handle& handle) noexcept {
  return detail::Internals::state(handle);
}

/// A public handle for a state.
template <class Handle, class... State>
[[nodiscard]] Handle handle_of(State&&... state) noexcept {
  return detail::Internals::make<Handle>(std::forward<State>(state)...);
}

}  // namespace hbmwire

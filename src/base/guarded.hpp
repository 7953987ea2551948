// SPDX-License-Identifier: MIT
#pragma once

#include <cerrno>
#include <new>
#include <stdexcept>

#include "hbmwire/error.hpp"

namespace hbmwire {

/// The error of an allocation that failed.
[[nodiscard]] inline Error out_of_memory(Stage stage, std::string_view subject = {}) noexcept {
  return system_error(stage, "allocating memory", ENOMEM, subject, Hint::host_memory_exhausted);
}

/// Runs `work()`, which returns a Result, and turns exceptions into errors, because no exception
/// may leave the library. A failed allocation becomes an Error of `stage`, and so does a container
/// with more elements than it can have. Each public function that may allocate is one call of this,
/// or calls only such functions. Other code in the library catches exceptions only where it must go
/// on without the memory.
template <class Work>
[[nodiscard]] auto guarded(Stage stage, const Work& work) noexcept -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return tl::make_unexpected(out_of_memory(stage));
  } catch (const std::length_error&) {
    return tl::make_unexpected(out_of_memory(stage));
  }
}

/// Runs `work()`. If memory runs out, calls `undo()` before the exception goes on. For resources
/// that do not have an owner yet.
template <class Work, class Undo>
auto or_undo(const Work& work, const Undo& undo) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    undo();
    throw;
  }
}

}  // namespace hbmwire

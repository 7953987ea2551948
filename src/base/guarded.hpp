// SPDX-License-Identifier: MIT
#pragma once

#include <cerrno>
#include <new>
#include <stdexcept>

#include "hbmwire/error.hpp"

namespace hbmwire {

/// The process gets no more memory.
[[nodiscard]] inline Error out_of_memory(Stage stage, std::string_view subject = {}) noexcept {
  return system_error(stage, "allocating memory", ENOMEM, subject, Hint::host_memory_exhausted);
}

/// `work()`, which gives a Result. No exception leaves the library: an allocation that fails below
/// here is an Error of `stage`, and so is a container of more elements than there can be. Each
/// function of the public interface that may allocate is one call of this, or calls such functions
/// alone; nothing else in the library catches anything, unless it has to go on without the memory.
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

/// `work()`; where memory runs out, `undo()` before the exception goes on. For what has no owner
/// yet that would give it back.
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

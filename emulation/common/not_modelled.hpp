// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>

namespace hbmwire::emulation {

/// A function of a vendor's header that the emulated library exports but does not model. The
/// generated source of each library (emulation/exports.cmake) defines one for each such name.
struct NotModelled {
  const char* name;
  std::atomic<bool> said{false};
};

/// Prints to stderr, once for each function, that a call was refused because the emulation lacks
/// the function. `library` is its file; `answer` is the vendor's name of the returned status.
/// Prints nothing in a process of `hbmwire emulate --quiet`. Callable from any thread.
void say_not_modelled(const char* library, NotModelled& function, const char* answer) noexcept;

/// The function `name` that the library containing `anchor` exports; null if there is none.
void* exported_function(const void* anchor, const char* name) noexcept;

}  // namespace hbmwire::emulation

// Weak, so that a function which the library models replaces it. The types of the vendor's
// arguments are not known here. Only the first argument is used, which the ABI passes in a
// register. Each library has a refuse() that calls say_not_modelled().
#define HBMWIRE_NOT_MODELLED(function)                                         \
  extern "C" [[gnu::weak, gnu::visibility("default")]] std::intptr_t function( \
      std::intptr_t first);                                                    \
  std::intptr_t function(std::intptr_t first) {                                \
    static hbmwire::emulation::NotModelled self{#function};                    \
    return refuse(self, first);                                                \
  }

// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>

namespace hbmwire::emulation {

/// One function of a vendor's header that the emulated library exports and does not model. The
/// generated source of each library (emulation/exports.cmake) defines one for each exported name.
struct NotModelled {
  const char* name;
  std::atomic<bool> said{false};
};

/// Says on stderr, once for each function, that a call was refused because the emulation lacks the
/// function. `library`: its file; `answer`: what the call returned, in the vendor's words. Says
/// nothing in a process of `hbmwire emulate --quiet`. Threads: any.
void say_not_modelled(const char* library, NotModelled& function, const char* answer) noexcept;

/// The function `name` that the library which holds `anchor` exports; null without one.
void* exported_function(const void* anchor, const char* name) noexcept;

}  // namespace hbmwire::emulation

// Weak, so that a function which the library does model takes its place. The vendor's arguments are
// not known here and not looked at, but for the first one, which the ABI passes in a register.
#define HBMWIRE_NOT_MODELLED(function)                                         \
  extern "C" [[gnu::weak, gnu::visibility("default")]] std::intptr_t function( \
      std::intptr_t first);                                                    \
  std::intptr_t function(std::intptr_t first) {                                \
    static hbmwire::emulation::NotModelled self{#function};                    \
    return refuse(self, first);                                                \
  }

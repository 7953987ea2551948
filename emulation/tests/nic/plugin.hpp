// SPDX-License-Identifier: MIT
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>

/// Functions that the plugin has only for tests.
namespace hbmwire::test {

/// Finds a function of the plugin. libibverbs has loaded the plugin RTLD_LOCAL; opening it again
/// returns a handle of the loaded one.
template <typename Function>
Function plugin_function(const char* name) {
  static void* const kPlugin = [] {
    const char* drivers = std::getenv("IBV_DRIVERS");
    const std::string path = std::string(drivers == nullptr ? "" : drivers) + ".so";
    return ::dlopen(path.c_str(), RTLD_NOW);
  }();
  void* found = kPlugin == nullptr ? nullptr : ::dlsym(kPlugin, name);
  if (found == nullptr) throw std::runtime_error(std::string("the plugin has no ") + name);
  return reinterpret_cast<Function>(found);
}

/// Makes the n-th arrival of this process at a step (emulation/common/fault_step.hpp) send
/// `signal`.
inline void set_step_trap(const char* step, std::int64_t nth, int signal) {
  plugin_function<void (*)(const char*, std::int64_t, int)>("hbmwire_nic_set_step_trap")(step, nth,
                                                                                         signal);
}

/// The number of other living processes, plus the number of their records in the shared state.
inline std::uint64_t records_of_others() {
  return plugin_function<std::uint64_t (*)()>("hbmwire_nic_records_of_others")();
}

/// The bytes of the shared state that rings of all processes take.
inline std::uint64_t ring_bytes() {
  return plugin_function<std::uint64_t (*)()>("hbmwire_nic_ring_bytes")();
}

/// Whether every lock of the shared state is free.
inline bool locks_are_free() { return plugin_function<bool (*)()>("hbmwire_nic_locks_are_free")(); }

}  // namespace hbmwire::test

// SPDX-License-Identifier: MIT
//
// hl-thunk: functions that are not modelled. Raw command submission would need the packet formats
// and queues of each generation, and real programs reach the DMA engines through SynapseAI. The
// cards have no NICs, debug units or trace units.
#include "emulation/gaudi/hl_thunk_refusal.hpp"

#include <string_view>

#include "emulation/gaudi/hl_thunk_calls.hpp"

namespace hbmwire::emulation::gaudi {
namespace {

/// Checks the card's file descriptor first, as the driver does: a control node only answers
/// questions.
int check_descriptor(std::string_view name, std::intptr_t first) {
  const auto fd = static_cast<int>(first);
  Card* card = nullptr;
  if (name.starts_with("hlthunk_get_")) return card_for_information(fd, card);
  return card_for_memory(fd, card);
}

/// Whether the first argument of the function is a file descriptor.
bool takes_descriptor(std::string_view name) {
  return !name.starts_with("hlthunk_hash_") && name != "hlthunk_debugfs_close" &&
         name != "hlthunk_debugfs_read" && name != "hlthunk_debugfs_write" &&
         name != "hlthunk_profiler_destroy";
}

/// Whether the function returns an address or a handle: 0 with errno on failure.
bool returns_zero(std::string_view name) {
  return name == "hlthunk_hash_create" || name == "hlthunk_nic_xe_device_memory_alloc";
}

}  // namespace

std::intptr_t refuse(NotModelled& function, std::intptr_t first) noexcept {
  const std::string_view name = function.name;
  int error = injected(function.name);
  if (error == 0 && takes_descriptor(name)) error = check_descriptor(name, first);
  if (error == 0) {
    const bool zero = returns_zero(name);
    say_not_modelled("libhl-thunk.so", function, zero ? "0 (EOPNOTSUPP)" : "-EOPNOTSUPP");
    error = -EOPNOTSUPP;
  }
  if (!returns_zero(name)) return error;
  errno = -error;
  return 0;
}

}  // namespace hbmwire::emulation::gaudi

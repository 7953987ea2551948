// SPDX-License-Identifier: MIT
#include "transport/staged/pinned_for.hpp"

#include <algorithm>

#include "base/guarded.hpp"
#include "base/log.hpp"

namespace hbmwire::transport {

PinnedFor::~PinnedFor() {
  for (const auto& each : asked_) {
    if (const auto device = each.lock()) device->unpin_host(memory_);
  }
}

void PinnedFor::pin_for(MemoryDomain& device) noexcept {
  std::erase_if(asked_, [](const auto& each) { return each.expired(); });
  // Weak pointers belong to the same object if neither owner comes before the other.
  const auto ours = device.weak_from_this();
  const bool known = std::ranges::any_of(asked_, [&](const auto& each) {
    return !each.owner_before(ours) && !ours.owner_before(each);
  });
  if (known) return;
  const auto pinned = guarded(Stage::copy, [&]() -> Result<void> {
    asked_.push_back(ours);
    return device.pin_host(memory_);
  });
  if (pinned || pinned.error().code == Errc::not_supported) return;
  log_line(LogLevel::warn,
           [&] { return "staged copies are made twice: " + describe(pinned.error()); });
}

}  // namespace hbmwire::transport

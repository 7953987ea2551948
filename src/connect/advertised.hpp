// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "hbmwire/memory_key.hpp"

namespace hbmwire::detail {

/// Memory that peers may ask for by name. Thread-safe: endpoints of several workers may ask.
struct AdvertisedRegions {
  /// Errors: as Listener::advertise() and withdraw().
  Result<void> add(std::string_view name, const Region& region, const MemoryKeyOptions& options);
  Result<void> remove(std::string_view name);

  /// The key's bytes; empty: there is no such name, or its key has ended.
  [[nodiscard]] std::vector<std::byte> key_of(std::string_view name);

  std::mutex mutex;
  std::map<std::string, MemoryKey, std::less<>> keys;
};

}  // namespace hbmwire::detail

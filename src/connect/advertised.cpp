// SPDX-License-Identifier: MIT
#include "connect/advertised.hpp"

#include <utility>

#include "wire/control_messages.hpp"

namespace hbmwire::detail {

Result<void> AdvertisedRegions::add(std::string_view name, const Region& region,
                                    const MemoryKeyOptions& options) {
  if (name.empty() || name.size() > wire::kMaxRegionName) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::register_memory,
                                          "a region's name has 1 to 255 bytes", name));
  }
  const std::scoped_lock lock(mutex);
  if (keys.contains(name)) {
    return tl::make_unexpected(
        make_error(Errc::busy, Stage::register_memory, "the name is advertised already", name));
  }
  HBMWIRE_TRY_ASSIGN(MemoryKey key, MemoryKey::pack(region, options));
  keys.emplace(name, std::move(key));
  return {};
}

Result<void> AdvertisedRegions::remove(std::string_view name) {
  const std::scoped_lock lock(mutex);
  const auto key = keys.find(name);
  if (key == keys.end()) {
    return tl::make_unexpected(
        make_error(Errc::not_found, Stage::register_memory, "the name is not advertised", name));
  }
  if (key->second.revocable()) HBMWIRE_TRY(key->second.revoke());
  keys.erase(key);
  return {};
}

std::vector<std::byte> AdvertisedRegions::key_of(std::string_view name) {
  const std::scoped_lock lock(mutex);
  const auto key = keys.find(name);
  if (key == keys.end() || !key->second.valid()) return {};
  return {key->second.bytes().begin(), key->second.bytes().end()};
}

}  // namespace hbmwire::detail

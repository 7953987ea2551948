// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

inline tl::unexpected<Error> refuse_slice(const char* why, std::string_view subject,
                                          Errc code = Errc::invalid_argument,
                                          Hint hint = Hint::none) {
  return tl::make_unexpected(make_error(code, Stage::post, why, subject, hint));
}

/// Into `operation`, which bytes are meant.
inline Result<void> SliceChecks::find_local(Operation& operation, const Slice& slice) const {
  if (endpoint_.nic->context.is_inherited()) [[unlikely]]
    return tl::make_unexpected(verbs::inherited_error(*endpoint_.nic, Stage::post));
  if (slice.length_bytes == 0) return {};
  if (slice.region == nullptr) return refuse_slice("a slice of no region", endpoint_.peer);
  const RegionState& region = slice.region->state();
  const std::uint64_t size = region.size_bytes;
  if (slice.offset_bytes > size || slice.length_bytes > size - slice.offset_bytes) [[unlikely]]
    return refuse_slice("the slice leaves its region", endpoint_.peer);
  operation.local = region.address() + slice.offset_bytes;
  operation.length = slice.length_bytes;
  return {};
}

/// Whether the NIC, or what carries the bytes to it, reaches them.
inline Result<void> SliceChecks::reach_local(Operation& operation, const Slice& slice) {
  if (slice.length_bytes == 0) return {};
  const RegionState& region = slice.region->state();
  const auto key = region.local_key(*endpoint_.nic);
  if (!key) [[unlikely]]
    HBMWIRE_TRY(check_reach(region));
  if (!endpoint_.paths.is_plain(region.path)) [[unlikely]]
    HBMWIRE_TRY(endpoint_.paths.check(region));
  operation.local_key = key.value_or(0);
  return {};
}

inline Result<void> SliceChecks::find_remote(Operation& operation, const RemoteSlice& slice,
                                             Access needed) const {
  if (slice.region == nullptr) return refuse_slice("a slice of no remote region", endpoint_.peer);
  const RemoteRegionState& region = RemoteRegionState::of(*slice.region);
  const bool ours = (region.connection & ~kByEngine) == endpoint_.number;
  if (!ours || (region.path == Path::staged && needed == Access::remote_atomic)) [[unlikely]]
    HBMWIRE_TRY(endpoint_.movers.proxied.check(region, needed));
  if (slice.offset_bytes > region.length_bytes ||
      slice.length_bytes > region.length_bytes - slice.offset_bytes) [[unlikely]]
    return refuse_slice("the slice leaves the remote region", endpoint_.peer);
  if (!has(region.access, needed)) [[unlikely]] {
    return refuse_slice("the peer's key does not allow it", endpoint_.peer, Errc::permission_denied,
                        Hint::memory_key_access);
  }
  operation.remote = region.address + slice.offset_bytes;
  operation.remote_key = region.remote_key;
  return {};
}

inline Result<void> SliceChecks::reach_remote(const RemoteSlice& slice) const {
  const RemoteRegionState& region = RemoteRegionState::of(*slice.region);
  const bool kept_to_engines = is_by_engine(region) && !endpoint_.paths.admits(region.path);
  // No byte goes by the NIC where there is none: the request stands in the order alone.
  if (kept_to_engines && slice.length_bytes != 0) [[unlikely]] {
    return refuse_slice(
        "the path policy excludes how the NIC reaches the peer's memory, and no engine copies",
        endpoint_.peer, Errc::permission_denied, Hint::path_policy);
  }
  return {};
}

}  // namespace hbmwire::detail

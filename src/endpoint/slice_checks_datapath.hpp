// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <string_view>

#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

inline tl::unexpected<Error> refuse_slice(const char* why, std::string_view subject,
                                          Errc code = Errc::invalid_argument,
                                          Hint hint = Hint::none) {
  return tl::make_unexpected(make_error(code, Stage::post, why, subject, hint));
}

/// Writes address and length of the slice into `operation`.
inline Result<void> SliceChecks::find_local(Operation& operation, const Slice& slice) const {
  if (endpoint_.nic->context.is_inherited()) [[unlikely]]
    return tl::make_unexpected(verbs::inherited_error(*endpoint_.nic, Stage::post));
  if (slice.length_bytes == 0) return {};
  if (slice.region == nullptr) return refuse_slice("a slice of no region", endpoint_.peer);
  const RegionState& region = state_of(*slice.region);
  const std::uint64_t size = region.size_bytes;
  if (slice.offset_bytes > size || slice.length_bytes > size - slice.offset_bytes) [[unlikely]]
    return refuse_slice("the slice leaves its region", endpoint_.peer);
  operation.local = region.address() + slice.offset_bytes;
  operation.length = slice.length_bytes;
  return {};
}

inline bool SliceChecks::is_plain(Operation& operation, const Slice& here,
                                  const RemoteRegionState& there) const noexcept {
  if (here.length_bytes == 0) return true;
  const RegionState& local = state_of(*here.region);
  const auto key = local.local_key(*endpoint_.nic);
  operation.local_key = key.value_or(0);
  return key && std::max(local.path, there.path) < Path::staged &&
         endpoint_.paths.is_plain(local.path) && endpoint_.paths.is_plain(there.path) &&
         here.length_bytes <= endpoint_.movers.table.most_plain();
}

inline Result<void> SliceChecks::find_remote(Operation& operation, const RemoteSlice& slice,
                                             Access needed) const {
  if (slice.region == nullptr) return refuse_slice("a slice of no remote region", endpoint_.peer);
  const RemoteRegionState& region = RemoteRegionState::of(*slice.region);
  // Memory that is staged at the peer has the number of no connection: check() admits it, but not
  // for atomics.
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

}  // namespace hbmwire::detail

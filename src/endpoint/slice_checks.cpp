// SPDX-License-Identifier: MIT
#include "endpoint/slice_checks.hpp"

#include <utility>

#include "base/log.hpp"
#include "endpoint/slice_checks_datapath.hpp"

namespace hbmwire::detail {

Result<void> SliceChecks::check_reach(const RegionState& region) {
  const bool staged = endpoint_.paths.is_staged(region.path);
  if (!endpoint_.paths.by_tcp() && (region.path == Path::copy || region.path == Path::ipc) &&
      !staged) {
    return refuse_slice(
        "the path policy leaves the slice's memory to engines that copy, and none carries this",
        endpoint_.nic->info.name, Errc::permission_denied, Hint::path_policy);
  }
  if (!endpoint_.paths.by_tcp() && !staged)
    return refuse_slice("the slice's region is not registered with the endpoint's NIC",
                        endpoint_.nic->info.name);
  if (!staged) return {};
  if (endpoint_.paths.by_tcp()) {
    const MemoryDomain& domain = region.allocation.domain();
    if (domain.copy_engine().empty()) {
      return refuse_slice("the device has no engine that copies, as an endpoint over TCP needs",
                          domain.device().name, Errc::not_supported);
    }
  }
  return endpoint_.worker_nic.staged->prepare();
}

/// Whether the NIC, or the mover that carries the bytes to it, reaches the memory.
Result<void> SliceChecks::reach_local(Operation& operation, const Slice& slice) {
  if (slice.length_bytes == 0) return {};
  const RegionState& region = state_of(*slice.region);
  const auto key = region.local_key(*endpoint_.nic);
  if (!key) HBMWIRE_TRY(check_reach(region));
  if (!endpoint_.paths.is_plain(region.path)) HBMWIRE_TRY(endpoint_.paths.check(region));
  operation.local_key = key.value_or(0);
  return {};
}

Result<void> SliceChecks::reach_remote(const RemoteSlice& slice) const {
  const RemoteRegionState& region = RemoteRegionState::of(*slice.region);
  const bool kept_to_engines = is_by_engine(region) && !endpoint_.paths.admits(region.path);
  // An empty slice moves no bytes by the NIC: its request only keeps its place in the order.
  if (kept_to_engines && slice.length_bytes != 0) {
    return refuse_slice(
        "the path policy excludes how the NIC reaches the peer's memory, and no engine copies",
        endpoint_.peer, Errc::permission_denied, Hint::path_policy);
  }
  return {};
}

Result<void> SliceChecks::local(Operation& operation, const Slice& slice) {
  HBMWIRE_TRY(find_local(operation, slice));
  return reach_local(operation, slice);
}

Result<void> SliceChecks::message(Operation& operation, const Slice& slice) {
  HBMWIRE_TRY(find_local(operation, slice));
  if (slice.length_bytes == 0 || !endpoint_.movers.ring.is_on())
    return reach_local(operation, slice);
  const RegionState& region = state_of(*slice.region);
  if (region.path != Path::host) return reach_local(operation, slice);
  operation.local_key = region.local_key(*endpoint_.nic).value_or(0);
  return {};
}

Result<void> SliceChecks::remote(Operation& operation, const RemoteSlice& slice, Access needed) {
  HBMWIRE_TRY(find_remote(operation, slice, needed));
  return reach_remote(slice);
}

void SliceChecks::note(const Slice& here, MemoryType there) noexcept {
  if (!endpoint_.paths.by_tcp() || here.length_bytes == 0) return;
  if (there != MemoryType::host || endpoint_.paths.is_staged(state_of(*here.region).path))
    device_over_tcp_ = true;
}

void SliceChecks::warn_of_tcp() noexcept {
  if (!device_over_tcp_ || std::exchange(warned_of_tcp_, true)) return;
  log_line(LogLevel::warn, [&] {
    return "device memory goes to and from " + endpoint_.peer +
           (endpoint_.paths.placement() == Placement::two_nodes
                ? " by TCP"
                : " by TCP or through shared host memory") +
           ", not zero-copy: one of both ends has no RDMA device";
  });
}

}  // namespace hbmwire::detail

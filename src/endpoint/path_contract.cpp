// SPDX-License-Identifier: MIT
#include <algorithm>

#include "context/path_policy.hpp"
#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

Result<void> EndpointState::keep_to_paths() {
  const PathPolicy& of_context = worker->context.paths();
  HBMWIRE_TRY(validate(options.paths, of_context));
  for (const Path path : kPaths) {
    const MemoryType type = path == Path::host ? MemoryType::host : MemoryType::gaudi;
    if (!of_context.admits(type, path) || !options.paths.admits(type, path)) continue;
    admitted_paths |= bit_of(path);
    if (path == Path::host || path == Path::zero_copy) plain_paths |= bit_of(path);
  }
  return {};
}

void EndpointState::settle_paths() noexcept {
  copies = placement == Placement::same_process && has_path(admitted_paths, Path::copy);
  shares = placement == Placement::same_node && has_path(admitted_paths, Path::ipc);
  const auto names_ipc = [](const PathPolicy& policy) {
    return std::ranges::find(policy.allow, Path::ipc) != policy.allow.end();
  };
  shares_first = names_ipc(options.paths) || names_ipc(worker->context.paths());
  // Over TCP `admitted_paths` has more than the policy says.
  const auto stages = [](const PathPolicy& policy) {
    return policy.admits(MemoryType::gaudi, Path::staged);
  };
  pieces.admit(placement != Placement::two_nodes && stages(options.paths) &&
               stages(worker->context.paths()));
  // Device memory may have a better way, which depends on both ends.
  if (copies) plain_paths &= bit_of(Path::host);
}

Result<void> EndpointState::check_path(const RegionState& region) const {
  if (has_path(admitted_paths, region.path)) {
    // Memory that was registered with the NIC itself, past its context, has not been noted yet.
    if (!region.paths->noted.load(std::memory_order_relaxed)) note(*region.paths);
    return {};
  }
  Error refused = region.paths->excluded;
  refused.stage = Stage::post;
  return tl::make_unexpected(refused);
}

}  // namespace hbmwire::detail

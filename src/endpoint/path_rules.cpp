// SPDX-License-Identifier: MIT
#include "endpoint/path_rules.hpp"

#include <algorithm>

#include "context/path_policy.hpp"
#include "registration/region_state.hpp"

namespace hbmwire::detail {

Result<void> PathRules::set_policies(const PathPolicy& of_endpoint, const PathPolicy& of_context) {
  HBMWIRE_TRY(validate(of_endpoint, of_context));
  const auto both = [&](MemoryType type, Path path) {
    return of_context.admits(type, path) && of_endpoint.admits(type, path);
  };
  for (const Path path : kPaths) {
    // gaudi stands for every type of device: policies tell only host memory from devices' memory.
    if (!both(is_of_host(path) ? MemoryType::host : MemoryType::gaudi, path)) continue;
    admitted_ |= bit_of(path);
    if (path == Path::host || path == Path::zero_copy) plain_ |= bit_of(path);
  }
  stages_ = both(MemoryType::gaudi, Path::staged);
  const auto names_ipc = [](const PathPolicy& policy) {
    return std::ranges::find(policy.allow, Path::ipc) != policy.allow.end();
  };
  shares_first_ = names_ipc(of_endpoint) || names_ipc(of_context);
  return {};
}

void PathRules::go_by_tcp() noexcept {
  by_tcp_ = true;
  admitted_ |= static_cast<PathBits>(
      ~(bit_of(Path::copy) | bit_of(Path::ipc) | bit_of(Path::shared_memory)));
  plain_ = admitted_;
  staged_ = static_cast<PathBits>(~bit_of(Path::host));
}

void PathRules::set_placement(Placement placement) noexcept {
  placement_ = placement;
  copies_ = placement == Placement::same_process && admits(Path::copy);
  shares_ = placement == Placement::same_node && admits(Path::ipc);
  shares_memory_ = placement == Placement::same_node && admits(Path::shared_memory);
  // Device memory may have a better path, which depends on both ends, so it needs the full check.
  if (copies_) plain_ &= bit_of(Path::host);
}

Result<void> PathRules::check(const RegionState& region) const {
  if (admits(region.path)) {
    // Notes the path of memory that was registered with the NIC directly: its context did not see
    // that.
    if (!region.paths->noted.load(std::memory_order_relaxed)) note(*region.paths);
    return {};
  }
  Error refused = region.paths->excluded;
  refused.stage = Stage::post;
  return tl::make_unexpected(refused);
}

}  // namespace hbmwire::detail

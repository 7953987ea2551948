// SPDX-License-Identifier: MIT
#include "hbmwire/path.hpp"

#include <algorithm>

#include "context/path_policy.hpp"

namespace hbmwire {

namespace {

tl::unexpected<Error> refuse_path(const char* why, std::string_view which) {
  return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure, why, which));
}

bool exists(Path path) noexcept {
  return std::ranges::find(detail::kPaths, path) != detail::kPaths.end();
}

/// Whether the policy leaves `path` open: a path of host memory to host memory, any other path to
/// device memory (Gaudi stands for all devices).
bool leaves(const PathPolicy& policy, Path path) noexcept {
  return policy.admits(detail::is_of_host(path) ? MemoryType::host : MemoryType::gaudi, path);
}

}  // namespace

bool PathPolicy::admits(MemoryType type, Path path) const noexcept {
  if (path == Path::nic_loopback) path = Path::zero_copy;
  // A required path excludes all others of device memory. Host memory keeps its paths, but for
  // Path::shared_memory and Path::host, which have a rule each (PathPolicy).
  const bool is_excluded = path == Path::shared_memory ? require != Path::ipc
                           : path == Path::host        ? require == Path::shared_memory
                                                       : type != MemoryType::host;
  if (require && path != *require && is_excluded) return false;
  return allow.empty() || std::ranges::find(allow, path) != allow.end();
}

std::string_view to_string(Placement placement) noexcept {
  switch (placement) {
    case Placement::same_process:
      return "same process";
    case Placement::same_node:
      return "same node";
    case Placement::two_nodes:
      return "two nodes";
  }
  return "?";
}

namespace detail {

Result<void> validate(const PathPolicy& policy) {
  if ((policy.require && !exists(*policy.require)) || !std::ranges::all_of(policy.allow, exists))
    return refuse_path("a path policy names a path that does not exist", {});
  if (policy.require && !leaves(policy, *policy.require)) {
    return refuse_path(
        "the path that is required is not among those that are allowed: allow it, too",
        to_string(*policy.require));
  }
  return {};
}

Result<void> validate(const PathPolicy& of_endpoint, const PathPolicy& of_context) {
  HBMWIRE_TRY(validate(of_endpoint));
  HBMWIRE_TRY(validate(of_context));
  const std::optional<Path>& here = of_endpoint.require;
  const std::optional<Path>& there = of_context.require;
  if (here && there && *here != *there) {
    return refuse_path(
        "the endpoint's path policy requires another path than its context's: one of both must go",
        to_string(*here));
  }
  if (here && !leaves(of_context, *here)) {
    return refuse_path(
        "the endpoint's path policy requires a path that its context's excludes: allow it there, "
        "too",
        to_string(*here));
  }
  if (there && !leaves(of_endpoint, *there)) {
    return refuse_path(
        "the context's path policy requires a path that its endpoint's excludes: allow it there, "
        "too",
        to_string(*there));
  }
  const bool one_is_left = std::ranges::any_of(
      kPaths, [&](Path path) { return leaves(of_endpoint, path) && leaves(of_context, path); });
  if (one_is_left) return {};
  return refuse_path("the path policies of endpoint and context leave no path: let both allow one",
                     {});
}

bool may_do_without(const Context& context, const Error& why) noexcept {
  // A NIC that was named but does not exist is a mistake of the configuration, which TCP must not
  // hide. The error of such a NIC has another hint.
  return why.hint == Hint::no_rdma_device && admits_tcp(context.paths());
}

}  // namespace detail

}  // namespace hbmwire

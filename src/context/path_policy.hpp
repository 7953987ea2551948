// SPDX-License-Identifier: MIT
#pragma once

#include <array>

#include "hbmwire/context.hpp"
#include "hbmwire/path.hpp"

namespace hbmwire::detail {

/// The paths that a policy may name.
inline constexpr std::array kPaths{Path::host,   Path::zero_copy,    Path::peer_memory,
                                   Path::staged, Path::copy,         Path::tcp,
                                   Path::ipc,    Path::shared_memory};

/// Whether a path is for host memory rather than device memory.
[[nodiscard]] constexpr bool is_of_host(Path path) noexcept {
  return path == Path::host || path == Path::shared_memory;
}

/// Errors (Errc::invalid_argument, Stage::configure): `require` is missing from `allow`, or a path
/// does not exist.
Result<void> validate(const PathPolicy& policy);

/// Whether both policies can hold at once. Errors: those of each policy alone; the two require
/// different paths, one requires a path that the other excludes, or no path is left.
Result<void> validate(const PathPolicy& of_endpoint, const PathPolicy& of_context);

/// Whether all memory may go by TCP. Host memory needs the policy's permission for that, too.
[[nodiscard]] inline bool admits_tcp(const PathPolicy& policy) noexcept {
  return policy.admits(MemoryType::gaudi, Path::tcp);
}

/// Whether TCP may replace a NIC that could not be had because of `why`: this machine has no NIC,
/// and the policy does not exclude TCP.
[[nodiscard]] bool may_do_without(const Context& context, const Error& why) noexcept;

}  // namespace hbmwire::detail

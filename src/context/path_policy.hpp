// SPDX-License-Identifier: MIT
#pragma once

#include <array>

#include "hbmwire/context.hpp"
#include "hbmwire/path.hpp"

namespace hbmwire::detail {

/// Those that policies name.
inline constexpr std::array kPaths{Path::host,   Path::zero_copy,    Path::peer_memory,
                                   Path::staged, Path::copy,         Path::tcp,
                                   Path::ipc,    Path::shared_memory};

/// Whether a path is a matter of host memory, and not of devices'.
[[nodiscard]] constexpr bool is_of_host(Path path) noexcept {
  return path == Path::host || path == Path::shared_memory;
}

/// Errors: Errc::invalid_argument, Stage::configure: `require` is not among those of `allow`, or a
/// path that does not exist.
Result<void> validate(const PathPolicy& policy);

/// Whether both can be kept at once. Errors: as above; the two require different paths, one
/// requires what the other one excludes, or nothing is left.
Result<void> validate(const PathPolicy& of_endpoint, const PathPolicy& of_context);

/// Whether all memory may go by TCP, which is a matter of policy for host memory, too.
[[nodiscard]] inline bool admits_tcp(const PathPolicy& policy) noexcept {
  return policy.admits(MemoryType::gaudi, Path::tcp);
}

/// Whether what could not have a NIC because of `why` may go by TCP: there is none in this machine,
/// and the policy does not exclude it.
[[nodiscard]] bool may_do_without(const Context& context, const Error& why) noexcept;

}  // namespace hbmwire::detail

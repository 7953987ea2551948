// SPDX-License-Identifier: MIT
#pragma once

#include "hbmwire/path.hpp"

namespace hbmwire::detail {

/// Errors: Errc::invalid_argument, Stage::configure: `require` is not among those of `allow`, or a
/// path that does not exist.
Result<void> validate(const PathPolicy& policy);

/// Whether both can be kept at once. Errors: as above; the two require different paths, one
/// requires what the other one excludes, or nothing is left.
Result<void> validate(const PathPolicy& of_endpoint, const PathPolicy& of_context);

}  // namespace hbmwire::detail

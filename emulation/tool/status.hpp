// SPDX-License-Identifier: MIT
#pragma once

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

namespace hbmwire::emulation::tool {

/// A value, or one sentence for the user: what could not be done, why, and where there is one the
/// remedy.
template <class T>
using Result = tl::expected<T, std::string>;
using Status = Result<void>;

/// "cannot <what>: <errno in words>". `error` is taken before anything else can change errno.
inline tl::unexpected<std::string> cannot(std::string_view what, int error = errno) {
  return tl::unexpected(fmt::format("cannot {}: {}", what, std::strerror(error)));
}

inline tl::unexpected<std::string> problem(std::string sentence) {
  return tl::unexpected(std::move(sentence));
}

}  // namespace hbmwire::emulation::tool

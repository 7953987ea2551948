// SPDX-License-Identifier: MIT
#pragma once

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

namespace hbmwire::emulation::tool {

/// A value, or a sentence for the user: the failed step, the cause and, if there is one, the
/// remedy.
template <class T>
using Result = tl::expected<T, std::string>;
using Status = Result<void>;

/// The remedy for a shortage, for any call that fails by it. Empty for other causes.
inline std::string_view remedy_of(int error) {
  switch (error) {
    case EMFILE:
      return "; raise the limit of open files (`ulimit -n`)";
    case ENFILE:
      return "; the whole machine has no open files left: end programs that hold many";
    case EAGAIN:
      return "; raise the limit of processes (`ulimit -u`, the cgroup's pids.max)";
    case ENOMEM:
      return "; free memory, or raise this process's limits (`ulimit -v`, the container's memory)";
    case ENOSPC:
    case EDQUOT:
    case EROFS:
      return "; start the container with --shm-size=8g, or choose another place with --dir";
    default:
      return "";
  }
}

/// Makes "cannot <what>: <errno in words>; <remedy>". The default argument reads errno before other
/// code can change it.
inline tl::unexpected<std::string> cannot(std::string_view what, int error = errno) {
  return tl::unexpected(
      fmt::format("cannot {}: {}{}", what, std::strerror(error), remedy_of(error)));
}

inline tl::unexpected<std::string> problem(std::string sentence) {
  return tl::unexpected(std::move(sentence));
}

}  // namespace hbmwire::emulation::tool

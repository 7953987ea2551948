// SPDX-License-Identifier: MIT
#pragma once

#include <cerrno>
#include <cstddef>

namespace hbmwire::emulation::nic {

/// Null, of whatever pointer, with errno: the convention of verbs that create something.
inline std::nullptr_t null_with(int error) {
  errno = error;
  return nullptr;
}

}  // namespace hbmwire::emulation::nic

// SPDX-License-Identifier: MIT
#pragma once

#include <cerrno>
#include <cstddef>

namespace hbmwire::emulation::nic {

/// Sets errno and returns a null pointer: how verbs that create an object report an error.
inline std::nullptr_t null_with(int error) {
  errno = error;
  return nullptr;
}

}  // namespace hbmwire::emulation::nic

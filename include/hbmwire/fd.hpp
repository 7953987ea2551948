// SPDX-License-Identifier: MIT
#pragma once

#include "hbmwire/export.hpp"
#include "hbmwire/unique_handle.hpp"

namespace hbmwire {

/// How UniqueHandle owns a file descriptor, as Fd.
struct FdTraits {
  using type = int;

  /// No descriptor: -1.
  static constexpr type null() noexcept { return -1; }

  /// Closes it, close(2). A failure is not reported.
  HBMWIRE_API static void destroy(type fd) noexcept;
};

/// Owner of a file descriptor; closes it once, close(2). 0 is a valid descriptor.
using Fd = UniqueHandle<FdTraits>;

}  // namespace hbmwire

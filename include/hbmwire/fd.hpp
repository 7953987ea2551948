// SPDX-License-Identifier: MIT
#pragma once

#include "hbmwire/export.hpp"
#include "hbmwire/unique_handle.hpp"

namespace hbmwire {

struct FdTraits {
  using type = int;

  static constexpr type null() noexcept { return -1; }

  HBMWIRE_API static void destroy(type fd) noexcept;
};

/// Owner of a file descriptor; closes it once, close(2). 0 is a valid descriptor.
using Fd = UniqueHandle<FdTraits>;

}  // namespace hbmwire

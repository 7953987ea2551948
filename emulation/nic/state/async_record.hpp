// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire::emulation::nic {

/// What ibv_get_async_event reads, 16 bytes.
struct AsyncRecord {
  std::uint64_t element;
  std::uint32_t type;
  std::uint32_t reserved;
};

static_assert(sizeof(AsyncRecord) == 16);

}  // namespace hbmwire::emulation::nic

// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire::emulation::nic {

/// The 16 bytes that ibv_get_async_event() reads from its FIFO.
struct AsyncRecord {
  std::uint64_t element;
  std::uint32_t type;
  std::uint32_t reserved;
};

static_assert(sizeof(AsyncRecord) == 16);

}  // namespace hbmwire::emulation::nic

// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "hbmwire/nic.hpp"

namespace hbmwire::verbs {

/// Every RDMA device with its ports, as Context::nics() tells them, but for NUMA nodes. Each is
/// opened for the moment. `gid_index`: as of Nic::open(). Errors: Stage::probe (none, or libibverbs
/// can't look).
[[nodiscard]] Result<std::vector<NicDevice>> list_nics(std::optional<std::uint8_t> gid_index);

/// Bits in a second, of what a port's sysfs file "rate" says ("100 Gb/sec (4X EDR)"); 0 for
/// anything else.
[[nodiscard]] std::uint64_t parse_rate(std::string_view text) noexcept;

}  // namespace hbmwire::verbs

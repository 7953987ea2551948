// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "hbmwire/nic.hpp"

namespace hbmwire::verbs {

/// All RDMA devices with their ports, as Context::nics() returns them, but without NUMA nodes.
/// Opens each device for a moment. `gid_index`: see Nic::open(). Errors: Stage::probe (no device,
/// or libibverbs cannot look).
[[nodiscard]] Result<std::vector<NicDevice>> list_nics(std::optional<std::uint8_t> gid_index);

/// The bits per second in a port's sysfs file "rate" ("100 Gb/sec (4X EDR)"); 0 for any other text.
[[nodiscard]] std::uint64_t parse_rate(std::string_view text) noexcept;

}  // namespace hbmwire::verbs

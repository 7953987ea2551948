// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hbmwire/context.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/nic.hpp"

#include "tools/perf/result.hpp"

namespace hbmwire::tools::perf {

/// What the way between a NIC's port and a device is, as far as this machine tells.
struct Way {
  std::string distance;  ///< "PIX", ...; empty for memory of no PCI device
  std::vector<Limit>
      limits;  ///< the port's link; the narrowest PCIe link of the NIC, and of the device
};

[[nodiscard]] Way way_between(const Context& context, const NicInfo& nic, const DeviceInfo& device);

/// What one thread copies from one buffer to another: `size_bytes` at a time, going round in
/// `span_bytes` of each. The best of what the C library and the processor do, over some places of
/// the two ranges in their pages, and of some rounds each (some ten milliseconds in all). The limit
/// where the NIC is emulated, which makes one copy.
[[nodiscard]] double memcpy_bytes_per_second(std::uint64_t size_bytes, std::uint64_t span_bytes);

}  // namespace hbmwire::tools::perf

// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hbmwire/context.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/nic.hpp"

/// How fast the hardware between a NIC and a memory could be.
namespace hbmwire::tools {

inline constexpr double kBitsPerByte = 8;

/// A bound that can't be passed: a link, a slot, the copy of the emulated NIC.
struct Limit {
  enum class Kind : std::uint8_t { link, pcie, memcpy };

  Kind kind = Kind::link;
  double bytes_per_second = 0;
  std::string what = {};  ///< "link of mlx5_0, 100 Gb/s"
};

/// The way between a NIC's port and a device, as far as this machine tells.
struct Way {
  std::string distance;  ///< "PIX", ...; empty for memory of no PCI device
  std::vector<Limit>
      limits;  ///< the port's link; the narrowest PCIe link of the NIC, and of the device
};

/// `nics`: those of the machine, as Context::nics() gives them.
[[nodiscard]] Way way_between(const Context& context, const std::vector<NicDevice>& nics,
                              const NicInfo& nic, const DeviceInfo& device);

/// The bytes a second that one thread copies from one buffer to another: `size_bytes` at a time,
/// going round in `span_bytes` of each. The best of what the C library and the processor do, over
/// some places of the two ranges in their pages, and of some rounds each (some ten milliseconds in
/// all). The limit where the NIC is emulated, which makes one copy.
[[nodiscard]] double memcpy_bytes_per_second(std::uint64_t size_bytes, std::uint64_t span_bytes);

}  // namespace hbmwire::tools

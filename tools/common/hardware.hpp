// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hbmwire/context.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/nic.hpp"

/// The possible speed of the hardware between a NIC and a memory.
namespace hbmwire::tools {

inline constexpr double kBitsPerByte = 8;

/// An upper bound: a link, a slot, or the copy of the emulated NIC.
struct Limit {
  enum class Kind : std::uint8_t { link, pcie, memcpy };

  Kind kind = Kind::link;
  double bytes_per_second = 0;
  std::string what = {};  ///< "link of mlx5_0, 100 Gb/s"
};

/// The path between a NIC's port and a device, as far as this machine reports it.
struct Way {
  std::string distance;  ///< "PIX", ...; empty if the memory belongs to no PCI device
  std::vector<Limit>
      limits;  ///< the port's link, and the narrowest PCIe link of the NIC and of the device
};

/// `nics`: the NICs of the machine from Context::nics().
[[nodiscard]] Way way_between(const Context& context, const std::vector<NicDevice>& nics,
                              const NicInfo& nic, const DeviceInfo& device);

/// The rate in bytes per second at which one thread copies between two buffers, `size_bytes` at a
/// time, cycling through `span_bytes` of each. Takes the best of the C library and the processor's
/// instruction, of several offsets of the two ranges in their pages, and of several rounds each
/// (some ten milliseconds in total). This is the limit of an emulated NIC, which makes one copy.
[[nodiscard]] double memcpy_bytes_per_second(std::uint64_t size_bytes, std::uint64_t span_bytes);

}  // namespace hbmwire::tools

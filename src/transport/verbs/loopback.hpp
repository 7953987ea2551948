// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "hbmwire/nic.hpp"

namespace hbmwire::transport {

/// The NIC as a copy engine between host memory and a region, for devices that offer none: a queue
/// pair connected to itself and a bounce buffer of host memory. The region needs local write for
/// copies into it, and nothing remote.
class Loopback {
 public:
  static Result<Loopback> create(const Nic& nic);

  Result<void> copy_in(const Region& region, std::uint64_t offset, std::span<const std::byte> from,
                       const Wait& wait);
  Result<void> copy_out(const Region& region, std::uint64_t offset, std::span<std::byte> to,
                        const Wait& wait);

  /// Makes what this NIC has completed into `region` visible to the device's own engines: the NIC
  /// reads a byte of it, and a PCIe read can't pass the writes that went the same way before it
  /// (PCIe base specification, 2.4.1).
  Result<void> flush(const Region& region, std::uint64_t offset, const Wait& wait);

 private:
  Loopback(Region bounce, Connection connection)
      : bounce_(std::move(bounce)), connection_(std::move(connection)) {}

  Result<void> finish(const Wait& wait);

  Region bounce_;
  Connection connection_;
};

}  // namespace hbmwire::transport

// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "hbmwire/memory_domain.hpp"
#include "hbmwire/nic.hpp"

namespace hbmwire::transport {

/// Uses the NIC as a copy engine between host memory and a region, for devices that have none: a
/// queue pair that is connected to itself, and a bounce buffer of host memory. Copies into the
/// region require local write, and no remote access. Thread-safe.
class Loopback {
 public:
  static Result<Loopback> create(const Nic& nic, const Region& region);

  Loopback(Loopback&&) noexcept;
  Loopback& operator=(Loopback&&) noexcept;
  Loopback(const Loopback&) = delete;
  Loopback& operator=(const Loopback&) = delete;
  ~Loopback();

  /// Starts a copy. Copies progress by themselves, one after the other. A copy holds `keep` until
  /// it ends; `keep` must keep this object alive.
  Result<PendingCopy> start_copy_in(std::uint64_t offset, std::span<const std::byte> from,
                                    std::shared_ptr<const void> keep);
  Result<PendingCopy> start_copy_out(std::uint64_t offset, std::span<std::byte> to,
                                     std::shared_ptr<const void> keep);

  /// Makes all that this NIC has written to the region visible to the device's own engines. The NIC
  /// reads a byte of the region, and a PCIe read cannot pass the writes that went the same way
  /// before it (PCIe base specification, 2.4.1).
  Result<PendingCopy> start_flush(std::uint64_t offset, std::shared_ptr<const void> keep);

 private:
  struct State;
  explicit Loopback(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace hbmwire::transport

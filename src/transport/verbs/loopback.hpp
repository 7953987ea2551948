// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "hbmwire/memory_domain.hpp"
#include "hbmwire/nic.hpp"

namespace hbmwire::transport {

/// The NIC as a copy engine between host memory and a region, for devices that offer none: a queue
/// pair connected to itself and a bounce buffer of host memory. The region needs local write for
/// copies into it, and nothing remote. Thread-safe.
class Loopback {
 public:
  static Result<Loopback> create(const Nic& nic, const Region& region);

  Loopback(Loopback&&) noexcept;
  Loopback& operator=(Loopback&&) noexcept;
  Loopback(const Loopback&) = delete;
  Loopback& operator=(const Loopback&) = delete;
  ~Loopback();

  /// Copies that go on by themselves, one after the other. `keep` is held as long as a copy is, and
  /// must keep this object alive.
  Result<PendingCopy> start_copy_in(std::uint64_t offset, std::span<const std::byte> from,
                                    std::shared_ptr<const void> keep);
  Result<PendingCopy> start_copy_out(std::uint64_t offset, std::span<std::byte> to,
                                     std::shared_ptr<const void> keep);

  /// Makes what this NIC has completed into the region visible to the device's own engines: the NIC
  /// reads a byte of it, and a PCIe read can't pass the writes that went the same way before it
  /// (PCIe base specification, 2.4.1).
  Result<PendingCopy> start_flush(std::uint64_t offset, std::shared_ptr<const void> keep);

 private:
  struct State;
  explicit Loopback(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace hbmwire::transport

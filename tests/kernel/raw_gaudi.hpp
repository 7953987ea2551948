// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "hbmwire/fd.hpp"

#include "memory/gaudi/habanalabs_abi.hpp"

namespace hbmwire::test {

/// A page of the card's memory.
inline constexpr std::uint64_t kCardPage = 2 << 20;

/// The driver of the only card, through its calls alone. Results: 0, or the errno.
class RawGaudi {
 public:
  RawGaudi();

  /// The errno of opening the card; 0 if it is open.
  [[nodiscard]] int open_error() const { return open_error_; }

  /// Closes its descriptor.
  void close() { fd_.reset(); }

  [[nodiscard]] int descriptor() const { return fd_.get(); }

  int allocate(std::uint64_t size, std::uint64_t& handle, std::uint32_t flags = 0);
  int free(std::uint64_t handle);
  int map(std::uint64_t handle, std::uint64_t& address);
  int map_host(const void* memory, std::uint64_t size, std::uint64_t& address);
  int unmap(std::uint64_t address);

  struct Range {
    std::uint64_t address = 0;
    std::uint64_t size = 0;
    std::uint64_t offset = 0;
  };

  /// Exports with `flags`, or with the flags that the driver supports.
  int export_range(const Range& range, Fd& dmabuf);
  int export_range(const Range& range, Fd& dmabuf, std::uint32_t flags);

 private:
  int call(memory::gaudi::abi::MemoryArgs& args);

  Fd fd_;
  int open_error_ = 0;
};

/// The information call on the descriptor of any node: 0, or the errno.
int gaudi_info(int fd, std::uint32_t op, memory::gaudi::abi::HwIpInfo& info);

/// The PCI folder of the card in sysfs.
std::string gaudi_folder();

/// "exports", "releases", "attaches", "detaches", "maps", "unmaps".
std::map<std::string, long> gaudi_counters();

/// The place of a device address's page in the BAR; -1 if it is not mapped.
std::int64_t bar_offset(std::uint64_t address);

/// Decides whether importers are told from now on that they cannot reach the card.
void forbid_peer_to_peer(bool forbidden);

}  // namespace hbmwire::test

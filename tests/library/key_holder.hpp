// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "hbmwire/buffer.hpp"
#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/memory_key.hpp"

namespace hbmwire::test {

/// A peer that got a key, with its own NIC and buffer. Each operation uses a new connection,
/// because a refused one breaks its connection.
class KeyHolder {
 public:
  static constexpr std::size_t kMostBytes = 65536;

  explicit KeyHolder(const char* device);

  /// Two connected ends, of which the first one belongs to the holder.
  struct Link {
    Connection here;
    Connection there;
  };

  [[nodiscard]] Link connect(const Nic& exporter) const;

  /// Write to the exporter's memory, or read it, by RDMA through its NIC. Empty on success.
  std::optional<Error> write(const Nic& exporter, const RemoteMemory& to,
                             std::span<const std::byte> bytes);
  std::optional<Error> read(const Nic& exporter, const RemoteMemory& from,
                            std::span<std::byte> bytes);

 private:
  Nic nic_;
  Buffer buffer_;
};

/// Whether the exporter's NIC refused with "remote access error".
[[nodiscard]] bool refused_by_nic(const std::optional<Error>& error);

}  // namespace hbmwire::test

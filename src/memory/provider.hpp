// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/settings.hpp"

namespace hbmwire::memory {

/// One type of memory on this machine. Its constructor looks for devices once; each device is
/// opened separately. Thread-safe.
class Provider {
 public:
  Provider() = default;
  Provider(const Provider&) = delete;
  Provider& operator=(const Provider&) = delete;
  virtual ~Provider() = default;

  [[nodiscard]] virtual const MemoryProbe& probe() const noexcept = 0;

  /// The domain of a device. It is the same object as long as it is held anywhere.
  virtual Result<std::shared_ptr<MemoryDomain>> open(const MemoryOptions& options) = 0;

  /// Whether the range is this type's memory: memory of open devices, or memory that the vendor's
  /// library knows without opening anything. `device`: MemoryOptions::device, or empty for any.
  /// Returns an error if two devices claim the range, or if it exceeds the allocation of its
  /// address.
  virtual Result<std::optional<AddressInfo>> find(std::uint64_t address, std::uint64_t length_bytes,
                                                  std::string_view device) = 0;

  /// The domain for memory of the application that find() has found. Borrows the device if the
  /// application has it, otherwise opens it.
  virtual Result<std::shared_ptr<MemoryDomain>> open_for(const AddressInfo& info) = 0;
};

}  // namespace hbmwire::memory

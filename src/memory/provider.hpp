// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/settings.hpp"

namespace hbmwire::memory {

/// One type of memory on this machine: looked for once, when it is made, and opened a device at a
/// time. Thread-safe.
class Provider {
 public:
  Provider() = default;
  Provider(const Provider&) = delete;
  Provider& operator=(const Provider&) = delete;
  virtual ~Provider() = default;

  [[nodiscard]] virtual const MemoryProbe& probe() const noexcept = 0;

  /// The domain of a device, the same one for as long as anybody holds it.
  virtual Result<std::shared_ptr<MemoryDomain>> open(const MemoryOptions& options) = 0;

  /// Whether the range is this type's memory: of what was opened, and of what the vendor's library
  /// knows without opening anything. `device`: MemoryOptions::device, or empty for any. An error
  /// when two devices claim it, or when the range leaves the allocation that its address is in.
  virtual Result<std::optional<AddressInfo>> find(std::uint64_t address, std::uint64_t length_bytes,
                                                  std::string_view device) = 0;

  /// The domain for memory of the application that find() has found. Borrows the device where the
  /// application has it, else opens it.
  virtual Result<std::shared_ptr<MemoryDomain>> open_for(const AddressInfo& info) = 0;
};

}  // namespace hbmwire::memory

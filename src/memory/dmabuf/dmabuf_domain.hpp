// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "hbmwire/context.hpp"
#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"

#include "memory/dmabuf/descriptor.hpp"
#include "memory/range_table.hpp"

namespace hbmwire::memory::dmabuf {

/// A live import.
struct Import {
  std::uint64_t generation = 0;
  std::weak_ptr<MemoryDomain> domain;
};

/// The state that the imports of one context share. Thread-safe.
class Imports {
 public:
  Imports();

  /// Finds an import; no value if the address is in none. Returns an error if the range exceeds the
  /// import.
  Result<std::optional<AddressInfo>> find(std::uint64_t address, std::uint64_t length_bytes) const;

  [[nodiscard]] const DeviceInfo& device() const noexcept { return device_; }

  RangeTable<Import> ranges;
  Descriptors descriptors;

 private:
  DeviceInfo device_;
};

/// Implements Context::import_dmabuf(). Each import has its own domain, because a domain says
/// whether the CPU can copy its memory, and that depends on the import.
Result<Allocation> import_memory(const DmabufMemory& memory,
                                 const std::shared_ptr<Imports>& imports);

}  // namespace hbmwire::memory::dmabuf

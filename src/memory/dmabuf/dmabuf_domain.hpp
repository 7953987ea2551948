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

/// An import that is alive.
struct Import {
  std::uint64_t generation = 0;
  std::weak_ptr<MemoryDomain> domain;
};

/// What the imports of one context share. Thread-safe.
class Imports {
 public:
  Imports();

  /// Of an import; nothing when the address is in none. An error when the range leaves it.
  Result<std::optional<AddressInfo>> find(std::uint64_t address, std::uint64_t length_bytes) const;

  [[nodiscard]] const DeviceInfo& device() const noexcept { return device_; }

  RangeTable<Import> ranges;
  Descriptors descriptors;

 private:
  DeviceInfo device_;
};

/// Context::import_dmabuf(). Each import is a domain of its own: whether the CPU can copy differs
/// from one to the next.
Result<Allocation> import_memory(const DmabufMemory& memory,
                                 const std::shared_ptr<Imports>& imports);

}  // namespace hbmwire::memory::dmabuf

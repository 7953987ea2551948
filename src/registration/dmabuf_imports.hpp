// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "hbmwire/context.hpp"
#include "hbmwire/memory.hpp"

#include "memory/catalog.hpp"
#include "memory/dmabuf/descriptor.hpp"

namespace hbmwire::detail {

/// The dma-bufs that a registration cache has imported for the application. The same part of the
/// same dma-buf is imported once, and stays as long as a registration needs it. Thread-safe.
class DmabufImports {
 public:
  explicit DmabufImports(std::shared_ptr<const memory::Catalog> catalog) noexcept
      : catalog_(std::move(catalog)) {}

  /// The import of this part, made now if there is none. Errors: those of identify() and
  /// Catalog::import_dmabuf().
  Result<std::shared_ptr<const Allocation>> get(const DmabufMemory& memory);

 private:
  /// Equal whenever the application passes the same part of the same dma-buf.
  struct Key {
    memory::dmabuf::Identity identity;
    std::uint64_t offset_bytes = 0;
    std::uint64_t length_bytes = 0;
    void* mapping = nullptr;
    bool read_only = false;

    auto operator<=>(const Key&) const = default;  // NOLINT(modernize-use-nullptr)
  };

  const std::shared_ptr<const memory::Catalog> catalog_;
  std::mutex mutex_;
  std::map<Key, std::weak_ptr<const Allocation>> imports_;
};

}  // namespace hbmwire::detail

// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "hbmwire/context.hpp"
#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/settings.hpp"

#include "memory/provider.hpp"

namespace hbmwire::memory {

/// All types of memory of this machine. Thread-safe; after it was made only the open domains
/// change.
class Catalog {
 public:
  /// Looks for each type in `wanted` (all types if that is empty). Never fails: the probes say what
  /// is missing. `default_device`: the device to choose if several have the same address; empty:
  /// none.
  Catalog(const std::vector<MemoryType>& wanted, const Settings& settings,
          std::string default_device = {});

  [[nodiscard]] const std::vector<MemoryProbe>& probes() const noexcept { return probes_; }

  Result<std::shared_ptr<MemoryDomain>> open(MemoryType type, const MemoryOptions& options) const;
  Result<AddressInfo> find(std::uint64_t address, std::uint64_t length_bytes,
                           std::string_view device) const;
  Result<Allocation> borrow(std::uint64_t address, std::uint64_t length_bytes,
                            std::string_view device) const;
  Result<Allocation> import_dmabuf(const DmabufMemory& memory) const;
  Result<Allocation> adopt(const GaudiMemory& memory) const;

 private:
  [[nodiscard]] Provider* provider(MemoryType type) const noexcept {
    return providers_[static_cast<std::size_t>(type)].get();
  }

  /// Asks one provider. If the address is ambiguous, asks again with the default device.
  [[nodiscard]] Result<std::optional<AddressInfo>> find_on(Provider& provider,
                                                           std::uint64_t address,
                                                           std::uint64_t length_bytes,
                                                           std::string_view device) const;

  std::string default_device_;
  std::array<std::unique_ptr<Provider>, kMemoryTypes.size()> providers_;  // by type; null: unwanted
  std::vector<MemoryProbe> probes_;
};

}  // namespace hbmwire::memory

// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hbmwire/context.hpp"
#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/settings.hpp"

#include "memory/gaudi/card_driver.hpp"
#include "memory/gaudi/synapse.hpp"

namespace hbmwire::memory::gaudi {

/// The arguments for all domains in this folder.
struct Vendor {
  std::shared_ptr<const CardDriver> driver;
  Use dmabuf = Use::yes;

  /// The reason why memory of that device may not be exported; no value if it may.
  [[nodiscard]] std::optional<Error> refusal(std::string_view device) const;
};

/// The description of a card, from a compute or control descriptor.
Result<DeviceInfo> describe_card(const CardDriver& driver, int device_fd,
                                 std::string_view driven_by);

/// Memory from the driver, which offers no copy engine: a NIC copies by loopback.
class DomainWithoutEngine : public MemoryDomain {
 public:
  [[nodiscard]] std::string_view copy_engine() const noexcept final { return {}; }

  Result<PendingCopy> start_copy_in(std::uint64_t /*address*/,
                                    std::span<const std::byte> /*from*/) final {
    return tl::make_unexpected(no_engine());
  }

  Result<PendingCopy> start_copy_out(std::uint64_t /*address*/, std::span<std::byte> /*to*/) final {
    return tl::make_unexpected(no_engine());
  }

 private:
  [[nodiscard]] Error no_engine() const noexcept;
};

/// Opens a card through its driver, and owns it. `pci_address`: empty for the first free card.
Result<std::shared_ptr<MemoryDomain>> open_with_driver(const Vendor& vendor,
                                                       const std::string& pci_address);

/// Opens a card through SynapseAI, or borrows the card that SynapseAI already owns in this process.
Result<std::shared_ptr<MemoryDomain>> open_with_synapse(const Vendor& vendor,
                                                        const std::string& pci_address);

/// The memory of a card that SynapseAI drives for the application; it is all in one mapping.
struct ApplicationPool {
  std::string pci_address;
  std::uint64_t base_address = 0;
  std::uint64_t size_bytes = 0;
};

/// For a card that the application drives with SynapseAI in this process: the places where its pool
/// may be. Empty if there is no such card. Neither opens nor initializes anything.
[[nodiscard]] std::vector<ApplicationPool> application_pools(const Vendor& vendor,
                                                             const Synapse& synapse);

/// Makes a domain for one mapping of the application. When the Allocation's last copy goes, the
/// domain becomes empty: find() returns nothing, and exports fail.
Result<Allocation> adopt(const Vendor& vendor, const GaudiMemory& memory);

}  // namespace hbmwire::memory::gaudi

// SPDX-License-Identifier: MIT
#include "memory/gaudi/cards.hpp"
#include "memory/gaudi/domains.hpp"

namespace hbmwire::memory::gaudi {

// "try" means the same as "yes", because a Gaudi's memory has no second-best path.
std::optional<Error> Vendor::refusal(std::string_view device) const {
  if (dmabuf != Use::no) return std::nullopt;
  return make_error(Errc::not_supported, Stage::export_dmabuf,
                    "HBMWIRE_GAUDI_DMABUF=no, and a Gaudi's memory has no other way to a NIC",
                    device, Hint::dmabuf_forbidden);
}

Result<DeviceInfo> describe_card(const CardDriver& driver, int device_fd,
                                 std::string_view driven_by) {
  HBMWIRE_TRY_ASSIGN(const std::string address, driver.pci_address(device_fd));
  HBMWIRE_TRY_ASSIGN(const CardFacts facts, driver.facts(device_fd, address));
  DeviceInfo device;
  device.type = MemoryType::gaudi;
  device.pci_address = address;
  device.name = std::string(model_name(facts.device_id)) + " " + address;
  device.driven_by = driven_by;
  device.size_bytes = facts.dram_bytes;
  device.page_bytes = facts.page_bytes;
  for (const Card& card : find_cards()) {
    if (card.pci_address != address) continue;
    device.numa_node = card.numa_node;
    device.status = card.status;
  }
  return device;
}

}  // namespace hbmwire::memory::gaudi

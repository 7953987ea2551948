// SPDX-License-Identifier: MIT
#include "memory/gaudi/cards.hpp"
#include "memory/gaudi/domains.hpp"

namespace hbmwire::memory::gaudi {

// "try" is as "yes": there is no next best way to a Gaudi's memory.
std::optional<Error> Vendor::refusal(std::string_view device) const {
  if (dmabuf != Use::no) return std::nullopt;
  return make_error(Errc::not_supported, Stage::export_dmabuf,
                    "HBMWIRE_GAUDI_DMABUF=no, and a Gaudi's memory has no other way to a NIC",
                    device, Hint::dmabuf_forbidden);
}

Result<DeviceInfo> describe_card(const HlThunk& thunk, int device_fd, std::string_view driven_by) {
  HBMWIRE_TRY_ASSIGN(const std::string address, pci_address_of(thunk, device_fd));
  HwIpInfo info{};
  if (const int result = thunk.get_hw_ip_info(device_fd, &info); result < 0) {
    return tl::make_unexpected(
        system_error(Stage::open, "hlthunk_get_hw_ip_info", errno_of(result), address));
  }
  DeviceInfo device;
  device.type = MemoryType::gaudi;
  device.pci_address = address;
  device.name = std::string(model_name(info.device_id)) + " " + address;
  device.driven_by = driven_by;
  device.size_bytes = info.dram_size;
  device.page_bytes = info.dram_page_size;
  for (const Card& card : find_cards()) {
    if (card.pci_address != address) continue;
    device.numa_node = card.numa_node;
    device.status = card.status;
  }
  return device;
}

}  // namespace hbmwire::memory::gaudi

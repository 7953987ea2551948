// SPDX-License-Identifier: MIT
#include "memory/ipc_blocks.hpp"

#include <algorithm>
#include <string_view>

namespace hbmwire::memory {

IpcHandle make_ipc_handle(const DeviceInfo& device, std::uint64_t block_bytes,
                          std::uint64_t offset_bytes, std::uint64_t length_bytes) {
  IpcHandle handle;
  handle.type = device.type;
  const std::string_view address = device.pci_address;
  std::ranges::copy(address.substr(0, handle.pci_address.size()), handle.pci_address.begin());
  handle.block_bytes = block_bytes;
  handle.offset_bytes = offset_bytes;
  handle.length_bytes = length_bytes;
  return handle;
}

Result<void> check_ipc_handle(const IpcHandle& handle, const DeviceInfo& device,
                              bool reaches_others) {
  const auto refuse = [&](const char* why) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::open, why, device.name));
  };
  // Only type and PCI address are compared, so the range does not matter.
  const IpcHandle ours = make_ipc_handle(device, 0, 0, 0);
  const bool fits = reaches_others || handle.pci_address == ours.pci_address;
  if (handle.type != ours.type || !fits) return refuse("the IPC handle is another device's");
  if (handle.length_bytes == 0 || handle.offset_bytes > handle.block_bytes ||
      handle.length_bytes > handle.block_bytes - handle.offset_bytes)
    return refuse("the IPC handle's range is not within its block");
  return {};
}

}  // namespace hbmwire::memory

// SPDX-License-Identifier: MIT
//
// SynapseAI: device memory, and host memory that the card may access.
#include "emulation/gaudi/synapse/runtime.hpp"

using namespace hbmwire::emulation::gaudi;

// Ignores the requested address, which is only a hint.
synStatus synDeviceMalloc(const synDeviceId /*deviceId*/, const uint64_t size, uint64_t /*reqAddr*/,
                          const uint32_t /*flags*/, uint64_t* buffer) {
  return device_entry_point("synDeviceMalloc", [&](Runtime&, const auto& device) {
    return buffer == nullptr ? synInvalidArgument : device->allocate(size, *buffer);
  });
}

// Without a device there is nothing to free, and the vendor's library returns success.
synStatus synDeviceFree(const synDeviceId /*deviceId*/, const uint64_t buffer,
                        const uint32_t /*flags*/) {
  return entry_point("synDeviceFree", [&](Runtime& runtime) {
    const std::shared_ptr<Device> device = runtime.device();
    return device ? device->free(buffer) : synSuccess;
  });
}

synStatus synHostMalloc(const synDeviceId /*deviceId*/, const uint64_t size,
                        const uint32_t /*flags*/, void** buffer) {
  return device_entry_point("synHostMalloc", [&](Runtime&, const auto& device) {
    return buffer == nullptr ? synInvalidArgument : device->host_allocate(size, buffer);
  });
}

synStatus synHostFree(const synDeviceId /*deviceId*/, const void* buffer,
                      const uint32_t /*flags*/) {
  return entry_point("synHostFree", [&](Runtime& runtime) {
    const std::shared_ptr<Device> device = runtime.device();
    return device ? device->host_free(buffer) : synSuccess;
  });
}

synStatus synHostMap(const synDeviceId /*deviceId*/, const uint64_t size, const void* buffer) {
  return device_entry_point(
      "synHostMap", [&](Runtime&, const auto& device) { return device->host_map(size, buffer); });
}

synStatus synHostUnmap(const synDeviceId /*deviceId*/, const void* buffer) {
  return device_entry_point(
      "synHostUnmap", [&](Runtime&, const auto& device) { return device->host_unmap(buffer); });
}

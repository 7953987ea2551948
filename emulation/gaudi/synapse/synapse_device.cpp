// SPDX-License-Identifier: MIT
//
// SynapseAI: the library, the cards that it finds, and the one that it has acquired.
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>

#include "emulation/gaudi/abi/hl_thunk.h"
#include "emulation/gaudi/synapse/runtime.hpp"

using namespace hbmwire::emulation::gaudi;

// Layouts, compared with the vendor's headers.
static_assert(sizeof(synDeviceInfo) == 56);
static_assert(offsetof(synDeviceInfo, dramSize) == 24);
static_assert(offsetof(synDeviceInfo, dramEnabled) == 40);
static_assert(offsetof(synDeviceInfo, fd) == 48);
static_assert(offsetof(synDeviceInfo, deviceType) == 52);
static_assert(sizeof(synDeviceInfoV2) == 72);
static_assert(offsetof(synDeviceInfoV2, deviceIndex) == 56);
static_assert(offsetof(synDeviceInfoV2, globalHbmBaseAddress) == 64);

namespace {

synStatus copy_text(const std::string& text, char* destination, int length) {
  if (destination == nullptr || length <= 0) return synInvalidArgument;
  std::snprintf(destination, static_cast<std::size_t>(length), "%s", text.c_str());
  return synSuccess;
}

hlthunk_device_name name_of(synDeviceType type) {
  switch (type) {
    case synDeviceGaudi:
      return HLTHUNK_DEVICE_GAUDI;
    case synDeviceGaudi2:
      return HLTHUNK_DEVICE_GAUDI2;
    case synDeviceGaudi3:
      return HLTHUNK_DEVICE_GAUDI3;
    case synDeviceTypeInvalid:  // asks for a card of any generation
      return HLTHUNK_DEVICE_DONT_CARE;
    default:
      return HLTHUNK_DEVICE_INVALID;
  }
}

// Takes over a newly opened fd, or returns `when_not_opened` if it is negative. The callers choose
// that status as the vendor's library does, which does not always tell a busy card from a missing
// one.
synStatus acquire_opened(Runtime& runtime, int fd, synStatus when_not_opened, synDeviceId* id) {
  if (fd < 0) {
    *id = SYN_INVALID_DEVICE_ID;
    return when_not_opened;
  }
  const synStatus status = runtime.acquire(fd, *id);
  if (status != synSuccess) *id = SYN_INVALID_DEVICE_ID;
  return status;
}

template <typename Open>
synStatus acquire(const char* call, synDeviceId* id, synStatus when_not_opened, Open open) {
  return entry_point(call, [&](Runtime& runtime) {
    if (id == nullptr) return synInvalidArgument;
    if (runtime.device()) return synDeviceAlreadyAcquired;
    return acquire_opened(runtime, open(), when_not_opened, id);
  });
}

std::string pci_address_of(int fd) {
  std::array<char, sizeof("0000:00:00.0")> address{};
  hlthunk_get_pci_bus_id_from_fd(fd, address.data(), static_cast<int>(address.size()));
  return address.data();
}

}  // namespace

synStatus synInitialize(void) {
  const synStatus status = injected_status("synInitialize");
  return status != synSuccess ? status : Runtime::instance().initialise();
}

synStatus synDestroy(void) {
  const synStatus status = injected_status("synDestroy");
  return status != synSuccess ? status : Runtime::instance().destroy();
}

synStatus synDriverGetVersion(char* pDriverVersion, const int len) {
  const synStatus status = injected_status("synDriverGetVersion");
  return status != synSuccess ? status : copy_text("1.18.0-hbmwire-emulation", pDriverVersion, len);
}

synStatus synDeviceGetCount(uint32_t* pCount) {
  return entry_point("synDeviceGetCount", [&](Runtime&) {
    const int count = hlthunk_get_device_count(HLTHUNK_DEVICE_DONT_CARE);
    if (pCount == nullptr) return synInvalidArgument;
    *pCount = count < 0 ? 0 : static_cast<std::uint32_t>(count);
    return count < 0 ? synFail : synSuccess;
  });
}

synStatus synDeviceGetCountByDeviceType(uint32_t* pCount, const synDeviceType deviceType) {
  return entry_point("synDeviceGetCountByDeviceType", [&](Runtime&) {
    if (pCount == nullptr) return synInvalidArgument;
    const hlthunk_device_name name = name_of(deviceType);
    const int count = name == HLTHUNK_DEVICE_INVALID ? 0 : hlthunk_get_device_count(name);
    *pCount = count < 0 ? 0 : static_cast<std::uint32_t>(count);
    return count < 0 ? synFail : synSuccess;
  });
}

synStatus synDeviceCount(uint32_t count[synDeviceTypeSize]) {
  return entry_point("synDeviceCount", [&](Runtime&) {
    if (count == nullptr) return synInvalidArgument;
    for (int type = 0; type < synDeviceTypeSize; ++type) {
      const hlthunk_device_name name = type == synDeviceTypeInvalid
                                           ? HLTHUNK_DEVICE_INVALID
                                           : name_of(static_cast<synDeviceType>(type));
      const int cards = name == HLTHUNK_DEVICE_INVALID ? 0 : hlthunk_get_device_count(name);
      count[type] = cards < 0 ? 0 : static_cast<std::uint32_t>(cards);
    }
    return synSuccess;
  });
}

synStatus synDeviceGetModuleIDs(uint32_t* pDeviceModuleIds, uint32_t* size) {
  return entry_point("synDeviceGetModuleIDs", [&](Runtime&) {
    if (pDeviceModuleIds == nullptr || size == nullptr) return synInvalidArgument;
    std::uint32_t found = 0;
    for (int index = 0; index < HLTHUNK_MAX_MINOR && found < *size; ++index) {
      const int fd = hlthunk_open_control(index, nullptr);
      if (fd < 0) continue;
      hlthunk_hw_ip_info hw_ip{};
      if (hlthunk_get_hw_ip_info(fd, &hw_ip) == 0) pDeviceModuleIds[found++] = hw_ip.module_id;
      hlthunk_close(fd);
    }
    *size = found;
    return synSuccess;
  });
}

synStatus synDeviceAcquire(synDeviceId* pDeviceId, const char* pciBus) {
  const bool any = pciBus == nullptr || *pciBus == '\0';
  if (any) {
    return acquire("synDeviceAcquire", pDeviceId, synNoDeviceFound,
                   [] { return hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, nullptr); });
  }
  // With an address, hlthunk_open() does not look at the name.
  const bool exists = hlthunk_get_device_index_from_pci_bus_id(pciBus) >= 0;
  return acquire("synDeviceAcquire", pDeviceId, exists ? synFail : synNoDeviceFound,
                 [&] { return hlthunk_open(HLTHUNK_DEVICE_INVALID, pciBus); });
}

synStatus synDeviceAcquireByDeviceType(synDeviceId* pDeviceId, const synDeviceType deviceType) {
  return acquire("synDeviceAcquireByDeviceType", pDeviceId, synNoDeviceFound, [&] {
    const hlthunk_device_name name = name_of(deviceType);
    return name == HLTHUNK_DEVICE_INVALID ? -1 : hlthunk_open(name, nullptr);
  });
}

synStatus synDeviceAcquireByModuleId(synDeviceId* pDeviceId, const synModuleId moduleId) {
  return acquire("synDeviceAcquireByModuleId", pDeviceId, synNoDeviceFound, [&] {
    return moduleId == INVALID_MODULE_ID ? hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, nullptr)
                                         : hlthunk_open_by_module_id(moduleId);
  });
}

synStatus synDeviceRelease(const synDeviceId /*deviceId*/) {
  return entry_point("synDeviceRelease", [](Runtime& runtime) { return runtime.release(); });
}

synStatus synDeviceSynchronize(const synDeviceId /*deviceId*/) {
  return device_entry_point("synDeviceSynchronize", [](Runtime& runtime, const auto&) {
    synStatus status = synSuccess;
    for (const auto& [handle, stream] : runtime.streams().all()) {
      stream->progress()->wait(stream->progress()->posted());
      if (status == synSuccess) status = static_cast<synStatus>(stream->progress()->status());
    }
    return status;
  });
}

// Ignores the device id: the vendor's library answers for the device that it has acquired. A caller
// that passes -1 borrows another's device that way.
synStatus synDeviceGetInfoV2(const synDeviceId /*deviceId*/, synDeviceInfoV2* pDeviceInfo) {
  return device_entry_point("synDeviceGetInfoV2", [&](Runtime&, const auto& device) {
    if (pDeviceInfo == nullptr) return synInvalidArgument;
    *pDeviceInfo = device->info();
    return synSuccess;
  });
}

synStatus synDeviceGetInfo(const synDeviceId /*deviceId*/, synDeviceInfo* pDeviceInfo) {
  return device_entry_point("synDeviceGetInfo", [&](Runtime&, const auto& device) {
    if (pDeviceInfo == nullptr) return synInvalidArgument;
    const synDeviceInfoV2 info = device->info();
    static_assert(offsetof(synDeviceInfoV2, deviceType) == offsetof(synDeviceInfo, deviceType));
    // The second version only appends members to the first.
    std::memcpy(pDeviceInfo, &info, sizeof(*pDeviceInfo));
    return synSuccess;
  });
}

synStatus synDeviceGetMemoryInfo(const synDeviceId /*deviceId*/, uint64_t* free, uint64_t* total) {
  return device_entry_point("synDeviceGetMemoryInfo", [&](Runtime&, const auto& device) {
    if (free == nullptr || total == nullptr) return synInvalidArgument;
    device->memory_info(*free, *total);
    return synSuccess;
  });
}

synStatus synDeviceGetName(char* pName, const int len, const synDeviceId /*deviceId*/) {
  return device_entry_point("synDeviceGetName", [&](Runtime&, const auto& device) {
    hlthunk_hw_ip_info hw_ip{};
    if (hlthunk_get_hw_ip_info(device->fd(), &hw_ip) != 0) return synFail;
    std::array<char, sizeof(hw_ip.card_name) + 1> name{};
    std::memcpy(name.data(), hw_ip.card_name, sizeof(hw_ip.card_name));
    return copy_text(name.data(), pName, len);
  });
}

synStatus synDeviceGetPCIBusId(char* pPciBusId, const int len, const synDeviceId /*deviceId*/) {
  return device_entry_point("synDeviceGetPCIBusId", [&](Runtime&, const auto& device) {
    return copy_text(pci_address_of(device->fd()), pPciBusId, len);
  });
}

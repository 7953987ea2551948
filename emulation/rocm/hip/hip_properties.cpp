// SPDX-License-Identifier: MIT
//
// HIP: device properties that programs query when they start. The values are those of an MI300X.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "emulation/common/not_modelled.hpp"
#include "emulation/rocm/hip/runtime.hpp"

using namespace hbmwire::emulation;
using namespace hbmwire::emulation::rocm;

// Layouts, compared with the vendor's headers.
static_assert(sizeof(hipDeviceProp_tR0600) == 1472);
static_assert(offsetof(hipDeviceProp_tR0600, totalGlobalMem) == 288);
static_assert(offsetof(hipDeviceProp_tR0600, multiProcessorCount) == 388);
static_assert(offsetof(hipDeviceProp_tR0600, surfaceAlignment) == 568);
static_assert(offsetof(hipDeviceProp_tR0600, pciBusID) == 584);
static_assert(offsetof(hipDeviceProp_tR0600, maxThreadsPerMultiProcessor) == 624);
static_assert(offsetof(hipDeviceProp_tR0600, managedMemory) == 652);
static_assert(offsetof(hipDeviceProp_tR0600, pageableMemoryAccess) == 672);
static_assert(offsetof(hipDeviceProp_tR0600, hostRegisterSupported) == 728);
static_assert(offsetof(hipDeviceProp_tR0600, gpuDirectRDMASupported) == 748);
static_assert(offsetof(hipDeviceProp_tR0600, gcnArchName) == 1160);
static_assert(offsetof(hipDeviceProp_tR0600, isLargeBar) == 1464);
static_assert(sizeof(hipDeviceProp_tR0000) == 792);
static_assert(offsetof(hipDeviceProp_tR0000, totalGlobalMem) == 256);
static_assert(offsetof(hipDeviceProp_tR0000, pciDomainID) == 364);
static_assert(offsetof(hipDeviceProp_tR0000, gcnArchName) == 396);
static_assert(offsetof(hipDeviceProp_tR0000, hdpMemFlushCntl) == 696);
static_assert(offsetof(hipDeviceProp_tR0000, isLargeBar) == 764);

namespace {

constexpr int kWarp = 64;
constexpr int kComputeUnits = 304;
constexpr int kThreadsPerBlock = 1024;
constexpr int kThreadsPerUnit = 2048;
constexpr int kRegisters = 65536;
constexpr int kSharedBytes = 64 << 10;
constexpr int kClockKhz = 2'100'000;
constexpr int kMemoryClockKhz = 1'300'000;
constexpr int kMemoryBusBits = 8192;
constexpr int kL2Bytes = 4 << 20;
constexpr int kTimerKhz = 100'000;
constexpr int kMajor = 9;
constexpr int kMinor = 4;
constexpr const char* kArchitecture = "gfx942:sramecc+:xnack-";

int bus_of(const HipDevice& device) { return static_cast<int>(device.bdf >> 8U & 0xffU); }

int device_number_of(const HipDevice& device) { return static_cast<int>(device.bdf >> 3U & 0x1fU); }

void put_text(char* to, std::size_t bytes, std::string_view text) {
  std::memcpy(to, text.data(), std::min(text.size(), bytes - 1));
}

/// The members that both layouts share.
template <typename Properties>
Properties common_properties(const HipDevice& device) {
  Properties properties{};
  put_text(properties.name, sizeof properties.name, device.name);
  put_text(properties.gcnArchName, sizeof properties.gcnArchName, kArchitecture);
  properties.totalGlobalMem = device.memory_bytes;
  properties.sharedMemPerBlock = kSharedBytes;
  properties.maxSharedMemoryPerMultiProcessor = kSharedBytes;
  properties.regsPerBlock = kRegisters;
  properties.warpSize = kWarp;
  properties.memPitch = INT32_MAX;
  properties.maxThreadsPerBlock = kThreadsPerBlock;
  std::ranges::fill(properties.maxThreadsDim, kThreadsPerBlock);
  std::ranges::fill(properties.maxGridSize, INT32_MAX);
  properties.clockRate = kClockKhz;
  properties.memoryClockRate = kMemoryClockKhz;
  properties.memoryBusWidth = kMemoryBusBits;
  properties.totalConstMem = INT32_MAX;
  properties.major = kMajor;
  properties.minor = kMinor;
  properties.multiProcessorCount = kComputeUnits;
  properties.l2CacheSize = kL2Bytes;
  properties.maxThreadsPerMultiProcessor = kThreadsPerUnit;
  properties.clockInstructionRate = kTimerKhz;
  properties.concurrentKernels = 1;
  properties.ECCEnabled = 1;
  properties.pciDomainID = static_cast<int>(device.domain);
  properties.pciBusID = bus_of(device);
  properties.pciDeviceID = device_number_of(device);
  properties.canMapHostMemory = 1;
  properties.managedMemory = 1;
  properties.isLargeBar = device.large_bar ? 1 : 0;
  return properties;
}

hipUUID uuid_of(const HipDevice& device) {
  hipUUID uuid{};
  char text[sizeof uuid.bytes + 1] = {};
  std::snprintf(text, sizeof text, "%04x%012x", device.domain & 0xffffU, device.bdf);
  std::memcpy(uuid.bytes, text, sizeof uuid.bytes);
  return uuid;
}

hipError_t give_old_properties(const char* call, hipDeviceProp_tR0000* prop, int deviceId) {
  return device_entry_point(call, deviceId, [&](const HipDevice& device) {
    if (prop == nullptr) return hipErrorInvalidValue;
    *prop = common_properties<hipDeviceProp_tR0000>(device);
    return hipSuccess;
  });
}

// NOLINTNEXTLINE(readability-function-size): a table.
hipError_t attribute_of(const HipDevice& device, hipDeviceAttribute_t attribute, int& value) {
  const auto properties = common_properties<hipDeviceProp_tR0600>(device);
  switch (attribute) {
    case hipDeviceAttributeEccEnabled:
      value = properties.ECCEnabled;
      return hipSuccess;
    case hipDeviceAttributeAsyncEngineCount:
      value = 2;
      return hipSuccess;
    case hipDeviceAttributeCanMapHostMemory:
      value = properties.canMapHostMemory;
      return hipSuccess;
    case hipDeviceAttributeClockRate:
      value = properties.clockRate;
      return hipSuccess;
    case hipDeviceAttributeConcurrentKernels:
      value = properties.concurrentKernels;
      return hipSuccess;
    case hipDeviceAttributeL2CacheSize:
      value = properties.l2CacheSize;
      return hipSuccess;
    case hipDeviceAttributeComputeCapabilityMajor:
      value = properties.major;
      return hipSuccess;
    case hipDeviceAttributeComputeCapabilityMinor:
      value = properties.minor;
      return hipSuccess;
    case hipDeviceAttributeManagedMemory:
      value = properties.managedMemory;
      return hipSuccess;
    case hipDeviceAttributeMaxBlockDimX:
    case hipDeviceAttributeMaxBlockDimY:
    case hipDeviceAttributeMaxBlockDimZ:
    case hipDeviceAttributeMaxThreadsPerBlock:
      value = properties.maxThreadsPerBlock;
      return hipSuccess;
    case hipDeviceAttributeMaxGridDimX:
    case hipDeviceAttributeMaxGridDimY:
    case hipDeviceAttributeMaxGridDimZ:
      value = properties.maxGridSize[0];
      return hipSuccess;
    case hipDeviceAttributeMaxThreadsPerMultiProcessor:
      value = properties.maxThreadsPerMultiProcessor;
      return hipSuccess;
    case hipDeviceAttributeMemoryBusWidth:
      value = properties.memoryBusWidth;
      return hipSuccess;
    case hipDeviceAttributeMemoryClockRate:
      value = properties.memoryClockRate;
      return hipSuccess;
    case hipDeviceAttributeMultiprocessorCount:
      value = properties.multiProcessorCount;
      return hipSuccess;
    case hipDeviceAttributePciBusId:
      value = properties.pciBusID;
      return hipSuccess;
    case hipDeviceAttributePciDeviceId:
      value = properties.pciDeviceID;
      return hipSuccess;
    case hipDeviceAttributePciDomainID:
      value = properties.pciDomainID;
      return hipSuccess;
    case hipDeviceAttributeMaxRegistersPerBlock:
      value = properties.regsPerBlock;
      return hipSuccess;
    case hipDeviceAttributeMaxSharedMemoryPerBlock:
      value = kSharedBytes;
      return hipSuccess;
    case hipDeviceAttributeWarpSize:
      value = properties.warpSize;
      return hipSuccess;
    case hipDeviceAttributeUnifiedAddressing:
    case hipDeviceAttributeHostRegisterSupported:
      value = 1;
      return hipSuccess;
    // Memory pools and virtual memory are not modelled.
    case hipDeviceAttributeComputeMode:
    case hipDeviceAttributeIntegrated:
    case hipDeviceAttributeMemoryPoolsSupported:
    case hipDeviceAttributeVirtualMemoryManagementSupported:
      value = 0;
      return hipSuccess;
    case hipDeviceAttributeIsLargeBar:
      value = properties.isLargeBar;
      return hipSuccess;
  }
  return hipErrorInvalidValue;
}

}  // namespace

hipError_t hipDeviceGetAttribute(int* pi, hipDeviceAttribute_t attr, int deviceId) {
  return device_entry_point("hipDeviceGetAttribute", deviceId, [&](const HipDevice& device) {
    return pi == nullptr ? hipErrorInvalidValue : attribute_of(device, attr, *pi);
  });
}

hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600* prop, int deviceId) {
  return device_entry_point("hipGetDeviceProperties", deviceId, [&](const HipDevice& device) {
    if (prop == nullptr) return hipErrorInvalidValue;
    *prop = common_properties<hipDeviceProp_tR0600>(device);
    prop->uuid = uuid_of(device);
    prop->asyncEngineCount = 2;
    prop->unifiedAddressing = 1;
    prop->sharedMemPerMultiprocessor = kSharedBytes;
    prop->regsPerMultiprocessor = kRegisters;
    prop->hostRegisterSupported = 1;
    prop->gpuDirectRDMASupported = 1;
    return hipSuccess;
  });
}

hipError_t hipGetDevicePropertiesR0000(hipDeviceProp_tR0000* prop, int deviceId) {
  return give_old_properties("hipGetDevicePropertiesR0000", prop, deviceId);
}

hipError_t hipGetDeviceProperties(hipDeviceProp_tR0000* prop, int deviceId) {
  return give_old_properties("hipGetDeviceProperties", prop, deviceId);
}

hipError_t hipDeviceComputeCapability(int* major, int* minor, hipDevice_t device) {
  return device_entry_point("hipDeviceComputeCapability", device, [&](const HipDevice&) {
    if (major == nullptr || minor == nullptr) return hipErrorInvalidValue;
    *major = kMajor;
    *minor = kMinor;
    return hipSuccess;
  });
}

hipError_t hipDeviceGetUuid(hipUUID* uuid, hipDevice_t device) {
  return device_entry_point("hipDeviceGetUuid", device, [&](const HipDevice& known) {
    if (uuid == nullptr) return hipErrorInvalidValue;
    *uuid = uuid_of(known);
    return hipSuccess;
  });
}

// Every GPU's engine reaches every GPU's memory.
hipError_t hipDeviceCanAccessPeer(int* canAccessPeer, int deviceId, int peerDeviceId) {
  return device_entry_point("hipDeviceCanAccessPeer", deviceId, [&](const HipDevice&) {
    const auto devices = static_cast<int>(HipRuntime::instance()->devices().size());
    if (canAccessPeer == nullptr) return hipErrorInvalidValue;
    if (peerDeviceId < 0 || peerDeviceId >= devices) return hipErrorInvalidDevice;
    *canAccessPeer = deviceId != peerDeviceId ? 1 : 0;
    return hipSuccess;
  });
}

hipError_t hipDeviceEnablePeerAccess(int peerDeviceId, unsigned int flags) {
  return device_entry_point("hipDeviceEnablePeerAccess", peerDeviceId, [&](const HipDevice&) {
    return flags == 0 && peerDeviceId != current_device() ? hipSuccess : hipErrorInvalidValue;
  });
}

hipError_t hipDeviceDisablePeerAccess(int peerDeviceId) {
  return device_entry_point("hipDeviceDisablePeerAccess", peerDeviceId,
                            [](const HipDevice&) { return hipSuccess; });
}

hipError_t hipGetDeviceFlags(unsigned int* flags) {
  return hip_entry_point("hipGetDeviceFlags", [&](HipRuntime&) {
    if (flags == nullptr) return hipErrorInvalidValue;
    *flags = 0;  // hipDeviceScheduleAuto
    return hipSuccess;
  });
}

// The way in which a thread waits makes no difference here.
hipError_t hipSetDeviceFlags(unsigned /*flags*/) {
  return hip_entry_point("hipSetDeviceFlags", [](HipRuntime&) { return hipSuccess; });
}

hipError_t hipDeviceGetStreamPriorityRange(int* leastPriority, int* greatestPriority) {
  return hip_entry_point("hipDeviceGetStreamPriorityRange", [&](HipRuntime&) {
    if (leastPriority != nullptr) *leastPriority = 0;
    if (greatestPriority != nullptr) *greatestPriority = 0;
    return hipSuccess;
  });
}

// hipGetDeviceProperties is the name of the function for the older layout. Since version 6, HIP's
// header renames it.
hipError_t hipGetProcAddress(const char* symbol, void** pfn, int hipVersion, uint64_t /*flags*/,
                             hipDriverProcAddressQueryResult* symbolStatus) {
  return hip_entry_point("hipGetProcAddress", [&](HipRuntime&) {
    if (symbol == nullptr || pfn == nullptr) return hipErrorInvalidValue;
    constexpr int kVersion6 = 600;
    const std::string_view wanted(symbol);
    const bool renamed = hipVersion >= kVersion6 && wanted == "hipGetDeviceProperties";
    const char* const name = renamed ? "hipGetDevicePropertiesR0600" : symbol;
    *pfn = wanted.starts_with("hip")
               ? exported_function(reinterpret_cast<const void*>(&hipInit), name)
               : nullptr;
    if (symbolStatus != nullptr)
      *symbolStatus =
          *pfn != nullptr ? HIP_GET_PROC_ADDRESS_SUCCESS : HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *pfn != nullptr ? hipSuccess : hipErrorNotFound;
  });
}

hipChannelFormatDesc hipCreateChannelDesc(int x, int y, int z, int w, int f) {
  return {.x = x, .y = y, .z = z, .w = w, .f = f};
}

// SPDX-License-Identifier: MIT
//
// HIP: the machine, its devices and the names of errors.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "emulation/rocm/hip/runtime.hpp"

using namespace hbmwire::emulation::rocm;

namespace {

constexpr int kVersion = 70'100'000;  // 7.1.0

hipError_t give_version(const char* call, int* version) {
  if (const hipError_t error = injected_error(call); error != hipSuccess) return remember(error);
  if (version == nullptr) return remember(hipErrorInvalidValue);
  *version = kVersion;
  return hipSuccess;
}

}  // namespace

hipError_t hipInit(unsigned int flags) {
  return hip_entry_point(
      "hipInit", [&](HipRuntime&) { return flags == 0 ? hipSuccess : hipErrorInvalidValue; });
}

hipError_t hipDriverGetVersion(int* driverVersion) {
  return give_version("hipDriverGetVersion", driverVersion);
}

hipError_t hipRuntimeGetVersion(int* runtimeVersion) {
  return give_version("hipRuntimeGetVersion", runtimeVersion);
}

hipError_t hipGetDeviceCount(int* count) {
  if (count != nullptr) *count = 0;
  return hip_entry_point("hipGetDeviceCount", [&](HipRuntime& runtime) {
    if (count == nullptr) return hipErrorInvalidValue;
    *count = static_cast<int>(runtime.devices().size());
    return hipSuccess;
  });
}

hipError_t hipDeviceGet(hipDevice_t* device, int ordinal) {
  return device_entry_point("hipDeviceGet", ordinal, [&](const HipDevice&) {
    if (device == nullptr) return hipErrorInvalidValue;
    *device = ordinal;
    return hipSuccess;
  });
}

hipError_t hipSetDevice(int deviceId) {
  return device_entry_point("hipSetDevice", deviceId, [&](const HipDevice&) {
    current_device() = deviceId;
    return hipSuccess;
  });
}

hipError_t hipGetDevice(int* deviceId) {
  return hip_entry_point("hipGetDevice", [&](HipRuntime&) {
    if (deviceId == nullptr) return hipErrorInvalidValue;
    *deviceId = current_device();
    return hipSuccess;
  });
}

hipError_t hipDeviceGetName(char* name, int len, hipDevice_t device) {
  return device_entry_point("hipDeviceGetName", device, [&](const HipDevice& known) {
    if (name == nullptr || len <= 0) return hipErrorInvalidValue;
    std::snprintf(name, static_cast<std::size_t>(len), "%s", known.name.c_str());
    return hipSuccess;
  });
}

hipError_t hipDeviceTotalMem(size_t* bytes, hipDevice_t device) {
  return device_entry_point("hipDeviceTotalMem", device, [&](const HipDevice& known) {
    if (bytes == nullptr) return hipErrorInvalidValue;
    *bytes = known.memory_bytes;
    return hipSuccess;
  });
}

// Needs 13 characters. With less room it writes as much as fits and then returns an error.
hipError_t hipDeviceGetPCIBusId(char* pciBusId, int len, int device) {
  return device_entry_point("hipDeviceGetPCIBusId", device, [&](const HipDevice& known) {
    if (pciBusId == nullptr || len <= 0) return hipErrorInvalidValue;
    const std::string address = known.pci_address();
    std::snprintf(pciBusId, static_cast<std::size_t>(len), "%s", address.c_str());
    return static_cast<std::size_t>(len) > address.size() ? hipSuccess : hipErrorInvalidValue;
  });
}

hipError_t hipDeviceGetByPCIBusId(int* device, const char* pciBusId) {
  return hip_entry_point("hipDeviceGetByPCIBusId", [&](HipRuntime& runtime) {
    if (device == nullptr || pciBusId == nullptr) return hipErrorInvalidValue;
    const auto& devices = runtime.devices();
    const auto found = std::ranges::find_if(
        devices, [&](const HipDevice& known) { return known.pci_address() == pciBusId; });
    if (found == devices.end()) return hipErrorInvalidValue;
    *device = static_cast<int>(found - devices.begin());
    return hipSuccess;
  });
}

const char* hipGetErrorName(hipError_t hip_error) {
  switch (hip_error) {
    case hipSuccess:
      return "hipSuccess";
    case hipErrorInvalidValue:
      return "hipErrorInvalidValue";
    case hipErrorOutOfMemory:
      return "hipErrorOutOfMemory";
    case hipErrorNotInitialized:
      return "hipErrorNotInitialized";
    case hipErrorNoDevice:
      return "hipErrorNoDevice";
    case hipErrorInvalidDevice:
      return "hipErrorInvalidDevice";
    case hipErrorInvalidHandle:
      return "hipErrorInvalidHandle";
    case hipErrorNotFound:
      return "hipErrorNotFound";
    case hipErrorNotReady:
      return "hipErrorNotReady";
    case hipErrorNotSupported:
      return "hipErrorNotSupported";
    default:
      return "hipErrorUnknown";
  }
}

const char* hipGetErrorString(hipError_t hipError) {
  switch (hipError) {
    case hipSuccess:
      return "no error";
    case hipErrorInvalidValue:
      return "invalid argument";
    case hipErrorOutOfMemory:
      return "out of memory";
    case hipErrorNoDevice:
      return "no ROCm-capable device is detected";
    case hipErrorInvalidDevice:
      return "invalid device ordinal";
    case hipErrorNotReady:
      return "device not ready";
    case hipErrorNotSupported:
      return "operation not supported";
    default:
      return "unknown error";
  }
}

hipError_t hipDrvGetErrorName(hipError_t hipError, const char** errorString) {
  if (errorString == nullptr) return hipErrorInvalidValue;
  *errorString = hipGetErrorName(hipError);
  return hipSuccess;
}

hipError_t hipDrvGetErrorString(hipError_t hipError, const char** errorString) {
  if (errorString == nullptr) return hipErrorInvalidValue;
  *errorString = hipGetErrorString(hipError);
  return hipSuccess;
}

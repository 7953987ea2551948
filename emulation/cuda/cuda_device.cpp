// SPDX-License-Identifier: MIT
//
// Devices. Queries create no context.
#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "emulation/cuda/runtime.hpp"

using namespace hbmwire::emulation::cuda;

namespace {

template <typename Body>
CUresult device_entry_point(const char* call, CUdevice ordinal, Body body) noexcept {
  return entry_point(call, [&](Runtime& runtime) {
    Device* const device = runtime.device(ordinal);
    return device == nullptr ? CUDA_ERROR_INVALID_DEVICE : body(*device);
  });
}

// As in the driver, hexadecimal digits are upper case.
std::string shown_address(const Device& device) {
  std::string address = device.gpu.pci_address;
  std::ranges::transform(address, address.begin(),
                         [](char c) { return static_cast<char>(std::toupper(c)); });
  return address;
}

CUresult put_text(const std::string& text, char* to, int length) {
  if (to == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  const auto room = static_cast<std::size_t>(length) - 1;
  const std::size_t taken = std::min(room, text.size());
  std::memcpy(to, text.data(), taken);
  to[taken] = '\0';
  return CUDA_SUCCESS;
}

// A number in the PCI address, "dddd:bb:dd.f".
int hex_at(const Device& device, std::size_t from, std::size_t digits) {
  return static_cast<int>(
      std::strtol(device.gpu.pci_address.substr(from, digits).c_str(), nullptr, 16));
}

bool needs_flushes(const Device& device) {
  return std::filesystem::exists(device.gpu.directory / "posted");
}

constexpr int kMajor = 9;
constexpr int kMinor = 0;

// NOLINTNEXTLINE(readability-function-size): a table.
int attribute_of(const Device& device, CUdevice_attribute attribute) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_INTEGRATED:
      return has_trait(Trait::integrated) ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
      return hex_at(device, 0, 4);
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      return hex_at(device, 5, 2);
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
      return hex_at(device, 8, 2);
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
      return 3;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return kMajor;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return kMinor;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
      return INT32_MAX;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      return 48 << 10;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
      return 65536;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return 32;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      return 1'980'000;  // in kHz, as is the next value
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      return 2'619'000;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      return 5120;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      return 50 << 20;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return 132;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return 2048;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_ECC_ENABLED:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
      return 1;
    case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED:
      return has_trait(Trait::integrated) ? 0 : 1;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS:
      return has_trait(Trait::no_host_flush) ? 0 : 1;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING:
      return needs_flushes(device) ? 0 : CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER;
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
      return has_trait(Trait::closed_modules) ? 0 : 1;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
      return device.gpu.numa_node;
    default:
      return 0;
  }
}

}  // namespace

CUresult cuDeviceGetCount(int* count) {
  return entry_point("cuDeviceGetCount", [&](Runtime& runtime) {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *count = runtime.device_count();
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return device_entry_point("cuDeviceGet", ordinal, [&](Device&) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  return device_entry_point("cuDeviceGetName", device, [&](Device&) {
    return put_text("NVIDIA H100 80GB HBM3", name, length);
  });
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return device_entry_point("cuDeviceGetAttribute", device, [&](Device& found) {
    if (value == nullptr || attribute <= 0) return CUDA_ERROR_INVALID_VALUE;
    *value = attribute_of(found, attribute);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetPCIBusId(char* address, int length, CUdevice device) {
  return device_entry_point("cuDeviceGetPCIBusId", device, [&](Device& found) {
    return put_text(shown_address(found), address, length);
  });
}

CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* address) {
  return entry_point("cuDeviceGetByPCIBusId", [&](Runtime& runtime) {
    if (device == nullptr || address == nullptr) return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < runtime.device_count(); ++i) {
      if (::strcasecmp(runtime.device(i)->gpu.pci_address.c_str(), address) != 0) continue;
      *device = i;
      return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_DEVICE;
  });
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  return device_entry_point("cuDeviceTotalMem_v2", device, [&](Device& found) {
    std::error_code failure;
    if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *bytes = std::filesystem::file_size(found.gpu.directory / "hbm", failure);
    return failure ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
  });
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  return device_entry_point("cuDeviceComputeCapability", device, [&](Device&) {
    if (major == nullptr || minor == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *major = kMajor;
    *minor = kMinor;
    return CUDA_SUCCESS;
  });
}

// Contains the GPU's PCI address, which is unique in a node.
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  return device_entry_point("cuDeviceGetUuid", device, [&](Device& found) {
    if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *uuid = {};
    const std::string& address = found.gpu.pci_address;
    std::memcpy(uuid->bytes, address.data(), std::min(address.size(), sizeof uuid->bytes));
    return CUDA_SUCCESS;
  });
}

// Differs from the first version only for parts of a GPU (MIG), which are not modelled.
CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) { return cuDeviceGetUuid(uuid, device); }

// A context cannot access another GPU's memory (emulation/docs/cuda.md).
CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  return device_entry_point("cuDeviceCanAccessPeer", device, [&](Device&) {
    if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (Runtime::instance().device(peer) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    *can = 0;
    return CUDA_SUCCESS;
  });
}

// SPDX-License-Identifier: MIT
//
// HIP: memory, and information about addresses.
#include <array>
#include <bit>
#include <utility>

#include "emulation/rocm/hip/streams.hpp"

using namespace hbmwire::emulation::rocm;

namespace {

const HipDevice& current(HipRuntime& runtime) {
  return runtime.devices()[static_cast<std::size_t>(current_device())];
}

hipError_t allocate(hsa_amd_memory_pool_t pool, std::size_t size, void** ptr) {
  if (ptr == nullptr) return hipErrorInvalidValue;
  *ptr = nullptr;
  if (size == 0) return hipSuccess;
  const hsa_status_t status = hsa_amd_memory_pool_allocate(pool, size, 0, ptr);
  // For HIP, too large an allocation means out of memory.
  return status == HSA_STATUS_ERROR_INVALID_ALLOCATION ? hipErrorOutOfMemory : error_of(status);
}

/// Allocates memory of a GPU. With a large BAR, HIP also gives the CPU access.
hipError_t allocate_on(HipRuntime& runtime, const HipDevice& device, std::size_t size, void** ptr) {
  const hipError_t error = allocate(device.pool, size, ptr);
  if (error != hipSuccess || size == 0 || !device.large_bar) return error;
  const std::array agents{device.agent, runtime.host()};
  const hsa_status_t status =
      hsa_amd_agents_allow_access(agents.size(), agents.data(), nullptr, *ptr);
  if (status == HSA_STATUS_SUCCESS) return hipSuccess;
  hsa_amd_memory_pool_free(std::exchange(*ptr, nullptr));
  return error_of(status);
}

/// Waits until all GPUs are idle, as HIP does when memory is freed.
void wait_for_all(HipRuntime& runtime) {
  for (const auto& device : runtime.devices()) wait_for_device(runtime, device.null_stream->device);
}

hipError_t free_pool_memory(void* ptr) {
  if (ptr == nullptr) return hipSuccess;
  return error_of(hsa_amd_memory_pool_free(ptr));
}

}  // namespace

hipError_t hipMalloc(void** ptr, size_t size) {
  return hip_entry_point("hipMalloc", [&](HipRuntime& runtime) {
    return allocate_on(runtime, current(runtime), size, ptr);
  });
}

hipError_t hipFree(void* ptr) {
  return hip_entry_point("hipFree", [&](HipRuntime& runtime) {
    wait_for_all(runtime);
    return runtime.free_managed(ptr) ? hipSuccess : free_pool_memory(ptr);
  });
}

hipError_t hipMallocManaged(void** dev_ptr, size_t size, unsigned int flags) {
  return hip_entry_point("hipMallocManaged", [&](HipRuntime& runtime) {
    if (dev_ptr == nullptr || size == 0 ||
        (flags != hipMemAttachGlobal && flags != hipMemAttachHost))
      return hipErrorInvalidValue;
    *dev_ptr = runtime.allocate_managed(size);
    return *dev_ptr == nullptr ? hipErrorOutOfMemory : hipSuccess;
  });
}

hipError_t hipHostMalloc(void** ptr, size_t size, unsigned int /*flags*/) {
  return hip_entry_point("hipHostMalloc", [&](HipRuntime& runtime) {
    return allocate(runtime.host_pool(), size, ptr);
  });
}

hipError_t hipHostFree(void* ptr) {
  return hip_entry_point("hipHostFree", [&](HipRuntime& runtime) {
    wait_for_all(runtime);
    return free_pool_memory(ptr);
  });
}

// A second name of the same function.
hipError_t hipHostAlloc(void** ptr, size_t size, unsigned int flags) {
  return hipHostMalloc(ptr, size, flags);
}

hipError_t hipMallocHost(void** ptr, size_t size) {
  return hipHostMalloc(ptr, size, hipHostMallocDefault);
}

hipError_t hipMemAllocHost(void** ptr, size_t size) {
  return hipHostMalloc(ptr, size, hipHostMallocDefault);
}

hipError_t hipFreeHost(void* ptr) { return hipHostFree(ptr); }

hipError_t hipHostRegister(void* hostPtr, size_t sizeBytes, unsigned int /*flags*/) {
  return hip_entry_point("hipHostRegister", [&](HipRuntime&) {
    if (hostPtr == nullptr || sizeBytes == 0) return hipErrorInvalidValue;
    const auto info = pointer_info(hostPtr);
    if (!info) return hipErrorUnknown;
    if (info->type == HSA_EXT_POINTER_TYPE_LOCKED) return hipErrorHostMemoryAlreadyRegistered;
    void* seen_at = nullptr;
    return error_of(hsa_amd_memory_lock(hostPtr, sizeBytes, nullptr, 0, &seen_at));
  });
}

hipError_t hipHostUnregister(void* hostPtr) {
  return hip_entry_point("hipHostUnregister", [&](HipRuntime&) {
    const auto info = pointer_info(hostPtr);
    if (!info) return hipErrorUnknown;
    if (info->type != HSA_EXT_POINTER_TYPE_LOCKED || info->hostBaseAddress != hostPtr)
      return hipErrorHostMemoryNotRegistered;
    return error_of(hsa_amd_memory_unlock(hostPtr));
  });
}

hipError_t hipMemGetInfo(size_t* free, size_t* total) {
  return hip_entry_point("hipMemGetInfo", [&](HipRuntime& runtime) {
    if (free == nullptr || total == nullptr) return hipErrorInvalidValue;
    std::uint64_t left = 0;
    const hsa_status_t status =
        hsa_agent_get_info(current(runtime).agent, HSA_AMD_AGENT_INFO_MEMORY_AVAIL, &left);
    *free = left;
    *total = current(runtime).memory_bytes;
    return error_of(status);
  });
}

hipError_t hipMemGetAddressRange(hipDeviceptr_t* pbase, size_t* psize, hipDeviceptr_t dptr) {
  return hip_entry_point("hipMemGetAddressRange", [&](HipRuntime&) {
    const auto info = pointer_info(dptr);
    if (!info) return hipErrorUnknown;
    if (!is_allocated(*info)) return hipErrorNotFound;
    if (pbase != nullptr) *pbase = info->agentBaseAddress;
    if (psize != nullptr) *psize = info->sizeInBytes;
    return hipSuccess;
  });
}

// The dma-buf covers the driver's whole block, and HIP does not tell where in it the range begins.
hipError_t hipMemGetHandleForAddressRange(void* handle, hipDeviceptr_t dptr, size_t size,
                                          hipMemRangeHandleType handleType,
                                          unsigned long long flags) {
  return hip_entry_point("hipMemGetHandleForAddressRange", [&](HipRuntime&) {
    if (handle == nullptr || dptr == nullptr || size == 0 || flags != 0 ||
        handleType != hipMemRangeHandleTypeDmaBufFd)
      return hipErrorInvalidValue;
    std::uint64_t lost_offset = 0;
    return error_of(
        hsa_amd_portable_export_dmabuf(dptr, size, static_cast<int*>(handle), &lost_offset));
  });
}

hipError_t hipPointerGetAttributes(hipPointerAttribute_t* attributes, const void* ptr) {
  return hip_entry_point("hipPointerGetAttributes", [&](HipRuntime& runtime) {
    if (attributes == nullptr || ptr == nullptr) return hipErrorInvalidValue;
    *attributes = {};
    attributes->device = hipInvalidDeviceId;
    auto* const address = const_cast<void*>(ptr);
    if (runtime.find_managed(ptr) != nullptr) {
      attributes->type = hipMemoryTypeManaged;
      attributes->isManaged = 1;
      attributes->device = current_device();
      attributes->devicePointer = address;
      attributes->hostPointer = address;
      return hipSuccess;
    }
    const auto info = pointer_info(ptr);
    if (!info) return hipErrorUnknown;
    if (info->type == HSA_EXT_POINTER_TYPE_UNKNOWN) return hipSuccess;  // not registered
    const auto device = runtime.device_of(info->agentOwner);
    const auto offset =
        std::bit_cast<std::uint64_t>(ptr) - std::bit_cast<std::uint64_t>(info->hostBaseAddress);
    attributes->type = device ? hipMemoryTypeDevice : hipMemoryTypeHost;
    attributes->device = device.value_or(current_device());
    attributes->devicePointer = static_cast<char*>(info->agentBaseAddress) + offset;
    if (!device) attributes->hostPointer = address;
    return hipSuccess;
  });
}

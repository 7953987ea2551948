// SPDX-License-Identifier: MIT
//
// Virtual memory management: addresses, memory and mappings.
#include <bit>

#include "emulation/cuda/streams.hpp"

using hbmwire::emulation::GpuMemory;
using namespace hbmwire::emulation::cuda;

namespace {

bool whole_granules(std::uint64_t bytes) { return bytes != 0 && bytes % kGranule == 0; }

bool is_range(std::uint64_t address, std::uint64_t bytes) {
  return whole_granules(bytes) && address % kGranule == 0 && address + bytes > address;
}

Device* device_of(Runtime& runtime, const CUmemAllocationProp* properties) {
  if (properties == nullptr || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return nullptr;
  return runtime.device(properties->location.id);
}

}  // namespace

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* properties,
                                       int /*option*/) {
  return entry_point("cuMemGetAllocationGranularity", [&](Runtime& runtime) {
    if (bytes == nullptr || device_of(runtime, properties) == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *bytes = kGranule;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long flags) {
  return entry_point("cuMemCreate", [&](Runtime& runtime) {
    Device* const device = device_of(runtime, properties);
    if (handle == nullptr || device == nullptr || flags != 0 || !whole_granules(bytes))
      return CUDA_ERROR_INVALID_VALUE;
    GpuMemory* const memory = memory_of(*device);  // the call needs no context and creates none
    if (memory == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
    auto physical = Physical::allocate(*memory, properties->location.id, bytes);
    if (!physical) return CUDA_ERROR_OUT_OF_MEMORY;
    physical->rdma_capable = properties->allocFlags.gpuDirectRDMACapable != 0;
    physical->handles = 1;
    *handle = runtime.physicals().add(std::move(physical));
    return CUDA_SUCCESS;
  });
}

// The memory stays as long as it is mapped.
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return entry_point("cuMemRelease", [&](Runtime& runtime) {
    const auto physical = runtime.physicals().find(handle);
    if (!physical) return CUDA_ERROR_INVALID_VALUE;
    if (--physical->handles == 0) runtime.physicals().remove(handle);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  return entry_point("cuMemRetainAllocationHandle", [&](Runtime& runtime) {
    Allocation mapping;
    if (handle == nullptr ||
        !runtime.addresses().find(std::bit_cast<std::uint64_t>(address), mapping) ||
        mapping.origin != Origin::mapped)
      return CUDA_ERROR_INVALID_VALUE;
    for (const auto& [known, physical] : runtime.physicals().all()) {
      if (physical != mapping.physical) continue;
      ++physical->handles;
      *handle = known;
      return CUDA_SUCCESS;
    }
    mapping.physical->handles = 1;
    *handle = runtime.physicals().add(mapping.physical);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t alignment,
                             CUdeviceptr /*wanted*/, unsigned long long flags) {
  return entry_point("cuMemAddressReserve", [&](Runtime& runtime) {
    const bool aligned = alignment == 0 || std::has_single_bit(alignment);
    if (address == nullptr || flags != 0 || !whole_granules(bytes) || !aligned)
      return CUDA_ERROR_INVALID_VALUE;
    std::uint64_t made = 0;
    const CUresult result = runtime.addresses().reserve(bytes, alignment, made);
    *address = made;
    return result;
  });
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  return entry_point("cuMemAddressFree", [&](Runtime& runtime) {
    return runtime.addresses().unreserve(address, bytes);
  });
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  return entry_point("cuMemMap", [&](Runtime& runtime) {
    auto physical = runtime.physicals().find(handle);
    if (!physical || offset != 0 || flags != 0 || !is_range(address, bytes))
      return CUDA_ERROR_INVALID_VALUE;
    return runtime.addresses().map(address, bytes, std::move(physical));
  });
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  return entry_point("cuMemUnmap", [&](Runtime& runtime) {
    if (!is_range(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
    wait_for_everything(runtime);
    return runtime.addresses().unmap(address, bytes);
  });
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access,
                        size_t count) {
  return entry_point("cuMemSetAccess", [&](Runtime& runtime) {
    if (access == nullptr || count == 0 || !is_range(address, bytes))
      return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t i = 0; i < count; ++i) {
      const bool right = access[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                         runtime.device(access[i].location.id) != nullptr &&
                         access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      if (!right) return CUDA_ERROR_INVALID_VALUE;
    }
    return runtime.addresses().make_accessible(address, bytes);
  });
}

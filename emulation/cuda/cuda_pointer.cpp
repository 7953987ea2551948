// SPDX-License-Identifier: MIT
//
// The driver's information about an address.
#include <bit>
#include <cstring>

#include "emulation/cuda/runtime.hpp"

using namespace hbmwire::emulation::cuda;

namespace {

template <typename T>
CUresult put(void* data, T value) {
  // NOLINTNEXTLINE(bugprone-sizeof-expression): an answer that is a pointer is copied as such.
  std::memcpy(data, &value, sizeof value);
  return CUDA_SUCCESS;
}

int memory_type(const Allocation& allocation) {
  return allocation.origin == Origin::host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

bool rdma_capable(const Allocation& allocation) {
  return allocation.physical && allocation.origin != Origin::managed &&
         allocation.origin != Origin::ipc && allocation.physical->rdma_capable;
}

/// Attributes of reserved addresses, even if nothing is mapped there.
CUresult answer_for_range(const Region& region, const Allocation* allocation,
                          CUpointer_attribute attribute, void* data) {
  const bool reserved = region.origin == Origin::mapped;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return put(data, reserved || allocation == nullptr ? region.address : allocation->address);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return put(data, reserved || allocation == nullptr ? region.bytes : allocation->bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return put(data, allocation != nullptr ? 1 : 0);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult answer_for_allocation(const Allocation& allocation, CUdeviceptr address,
                               CUpointer_attribute attribute, void* data) {
  const bool for_cpu = allocation.origin == Origin::host || allocation.origin == Origin::managed;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return put(data, allocation.context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return put(data, memory_type(allocation));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return put(data, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return for_cpu ? put(data, address) : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return put(data, allocation.sync_memops ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return put(data, std::uint64_t{allocation.id});
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return put(data, allocation.origin == Origin::managed ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return put(data, allocation.device);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return put(data, allocation.origin == Origin::alloc && !has_trait(Trait::integrated) ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return put(data, 0U);
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return put(data, rdma_capable(allocation) ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return put(data, allocation.accessible ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : 0);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return put(data, static_cast<void*>(nullptr));
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return put(data, std::uint64_t{allocation.bytes});
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return put(data, std::uint64_t{allocation.address});
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return put(data, allocation.physical ? allocation.physical->id() : std::uint64_t{0});
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

bool is_of_range(CUpointer_attribute attribute) {
  return attribute >= CU_POINTER_ATTRIBUTE_RANGE_START_ADDR &&
         attribute <= CU_POINTER_ATTRIBUTE_MAPPED;
}

/// The facts about an address, looked up once for all attributes.
struct Known {
  Known(Runtime& runtime, CUdeviceptr address_of)
      : address(address_of), mapped(runtime.addresses().find(address, allocation)) {}

  CUresult answer(Runtime& runtime, CUpointer_attribute attribute, void* data) const {
    if (!is_of_range(attribute))
      return mapped ? answer_for_allocation(allocation, address, attribute, data)
                    : CUDA_ERROR_INVALID_VALUE;
    Region region;
    const bool reserved = runtime.addresses().find_region(address, region) &&
                          (mapped || region.origin == Origin::mapped);
    return reserved ? answer_for_range(region, mapped ? &allocation : nullptr, attribute, data)
                    : CUDA_ERROR_INVALID_VALUE;
  }

  CUdeviceptr address;
  Allocation allocation;
  bool mapped;
};

std::size_t size_of(CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return 4;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
      return 16;
    default:
      return 8;
  }
}

}  // namespace

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  return entry_point("cuPointerGetAttribute", [&](Runtime& runtime) {
    if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return Known(runtime, address).answer(runtime, attribute, data);
  });
}

// An address that CUDA does not know is not an error: all attributes are 0 then.
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr address) {
  return entry_point("cuPointerGetAttributes", [&](Runtime& runtime) {
    if (count == 0 || attributes == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const Known known(runtime, address);
    for (unsigned i = 0; i < count; ++i) {
      if (data[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
      if (known.answer(runtime, attributes[i], data[i]) != CUDA_SUCCESS)
        std::memset(data[i], 0, size_of(attributes[i]));
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute,
                               CUdeviceptr address) {
  return entry_point("cuPointerSetAttribute", [&](Runtime& runtime) {
    if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
      return CUDA_ERROR_INVALID_VALUE;
    unsigned on = 0;
    std::memcpy(&on, value, sizeof on);
    return runtime.addresses().set_sync_memops(address, on != 0);
  });
}

// For virtual memory the range is one mapping, even if others adjoin it.
CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  return context_entry_point("cuMemGetAddressRange_v2", [&](Runtime& runtime, Context&) {
    Allocation allocation;
    if (!runtime.addresses().find(address, allocation)) return CUDA_ERROR_INVALID_VALUE;
    if (base != nullptr) *base = allocation.address;
    if (bytes != nullptr) *bytes = allocation.bytes;
    return CUDA_SUCCESS;
  });
}

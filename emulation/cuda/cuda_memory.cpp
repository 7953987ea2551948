// SPDX-License-Identifier: MIT
//
// Allocating memory, and exporting it as a dma-buf.
#include <bit>

#include "emulation/cuda/streams.hpp"

using namespace hbmwire::emulation::cuda;

namespace {

struct GpuRange {
  std::uint64_t address;
  std::uint64_t bytes;
};

AllocationRequest request_of(Runtime& runtime, const Context& context, std::uint64_t bytes) {
  return {runtime.device(context.device)->memory.get(), context.device, context.handle, bytes};
}

CUresult allocate_host(const char* call, void** address, std::size_t bytes) {
  return context_entry_point(call, [&](Runtime& runtime, Context& context) {
    if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    std::uint64_t made = 0;
    const CUresult result = runtime.addresses().allocate_host(request_of(runtime, context, bytes),
                                                              has_trait(Trait::integrated), made);
    if (result == CUDA_SUCCESS) *address = std::bit_cast<void*>(made);
    return result;
  });
}

/// As the driver does, waits for work that may use the memory.
CUresult release(Runtime& runtime, std::uint64_t address, bool host) {
  Allocation allocation;
  if (!runtime.addresses().find(address, allocation)) return CUDA_ERROR_INVALID_VALUE;
  if (const auto owner = runtime.context(allocation.context)) wait_for_all(*owner);
  return runtime.addresses().free(address, host);
}

CUresult export_range(Runtime& runtime, Context& context, const GpuRange& range, int* fd) {
  if (range.bytes == 0 || range.address % kHostPage != 0 || range.bytes % kHostPage != 0 ||
      range.address + range.bytes < range.address)
    return CUDA_ERROR_INVALID_VALUE;
  if (has_trait(Trait::closed_modules)) return CUDA_ERROR_NOT_SUPPORTED;
  std::vector<hbmwire::emulation::GpuMemory::Range> ranges;
  const CUresult found =
      runtime.addresses().resolve_export(range.address, range.bytes, context.device, ranges);
  if (found != CUDA_SUCCESS) return found;
  const int made =
      runtime.device(context.device)->memory->export_dmabuf("hbmwire-cuda-dmabuf", ranges);
  if (made < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *fd = made;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  return context_entry_point("cuMemGetInfo_v2", [&](Runtime& runtime, Context& context) {
    if (free == nullptr || total == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto& memory = *runtime.device(context.device)->memory;
    std::uint64_t bytes = 0;
    if (memory.free_bytes(bytes) != 0) return CUDA_ERROR_UNKNOWN;
    *free = bytes;
    *total = memory.size_bytes();
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  return context_entry_point("cuMemAlloc_v2", [&](Runtime& runtime, Context& context) {
    if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    std::uint64_t made = 0;
    const CUresult result = runtime.addresses().allocate(request_of(runtime, context, bytes), made);
    *address = made;
    return result;
  });
}

CUresult cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned int /*flags*/) {
  return context_entry_point("cuMemAllocManaged", [&](Runtime& runtime, Context& context) {
    if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    std::uint64_t made = 0;
    const CUresult result =
        runtime.addresses().allocate_managed(request_of(runtime, context, bytes), made);
    *address = made;
    return result;
  });
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  return entry_point("cuMemFree_v2",
                     [&](Runtime& runtime) { return release(runtime, address, false); });
}

CUresult cuMemAllocHost_v2(void** address, size_t bytes) {
  return allocate_host("cuMemAllocHost_v2", address, bytes);
}

CUresult cuMemHostAlloc(void** address, size_t bytes, unsigned int /*flags*/) {
  return allocate_host("cuMemHostAlloc", address, bytes);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* host, unsigned int flags) {
  return context_entry_point("cuMemHostGetDevicePointer_v2", [&](Runtime& runtime, Context&) {
    Allocation allocation;
    const auto number = std::bit_cast<std::uint64_t>(host);
    if (address == nullptr || flags != 0 || !runtime.addresses().find(number, allocation) ||
        allocation.origin != Origin::host)
      return CUDA_ERROR_INVALID_VALUE;
    *address = number;  // addresses are unified
    return CUDA_SUCCESS;
  });
}

CUresult cuMemFreeHost(void* address) {
  return entry_point("cuMemFreeHost", [&](Runtime& runtime) {
    return release(runtime, std::bit_cast<std::uint64_t>(address), true);
  });
}

CUresult cuMemHostRegister_v2(void* address, size_t bytes, unsigned int flags) {
  return context_entry_point("cuMemHostRegister_v2", [&](Runtime& runtime, Context& context) {
    if (address == nullptr || bytes == 0 || flags > CU_MEMHOSTREGISTER_PORTABLE)
      return CUDA_ERROR_INVALID_VALUE;
    return runtime.addresses().pin(std::bit_cast<std::uint64_t>(address), bytes, context.handle);
  });
}

/// As the driver does, waits for work that may use the memory.
CUresult cuMemHostUnregister(void* address) {
  return context_entry_point("cuMemHostUnregister", [&](Runtime& runtime, Context&) {
    wait_for_everything(runtime);
    return runtime.addresses().unpin(std::bit_cast<std::uint64_t>(address));
  });
}

CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr address, size_t bytes, int type,
                                       unsigned long long flags) {
  return context_entry_point("cuMemGetHandleForAddressRange", [&](Runtime& runtime,
                                                                  Context& context) {
    const bool pcie =
        flags == CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE && !has_trait(Trait::old_driver);
    if (handle == nullptr || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || (flags != 0 && !pcie))
      return CUDA_ERROR_INVALID_VALUE;
    return export_range(runtime, context, {address, bytes}, static_cast<int*>(handle));
  });
}

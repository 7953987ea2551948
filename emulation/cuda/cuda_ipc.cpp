// SPDX-License-Identifier: MIT
//
// Memory of other processes.
#include <span>

#include "emulation/common/share_handle.hpp"
#include "emulation/cuda/streams.hpp"

using namespace hbmwire::emulation::cuda;
using hbmwire::emulation::read_handle;
using hbmwire::emulation::ShareHandle;
using hbmwire::emulation::write_handle;

// Accepts any address within the allocation; the other process gets the allocation's first address.
// cuMemGetAddressRange tells the distance.
CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  return context_entry_point("cuIpcGetMemHandle", [&](Runtime& runtime, Context&) {
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (has_trait(Trait::integrated)) return CUDA_ERROR_NOT_SUPPORTED;
    ShareHandle made{.family = ShareHandle::kCuda};
    int device = 0;
    const CUresult offered = runtime.addresses().offer(address, made.key, device);
    if (offered != CUDA_SUCCESS) return offered;
    made.gpu = runtime.device(device)->gpu.index;
    write_handle(made, std::as_writable_bytes(std::span(handle->reserved)));
    return CUDA_SUCCESS;
  });
}

// The flag is mandatory, although any GPU reaches any other here.
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* address, CUipcMemHandle handle, unsigned int flags) {
  return context_entry_point("cuIpcOpenMemHandle_v2", [&](Runtime& runtime, Context& context) {
    if (address == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
      return CUDA_ERROR_INVALID_VALUE;
    if (has_trait(Trait::integrated)) return CUDA_ERROR_NOT_SUPPORTED;
    const auto read = read_handle(std::as_bytes(std::span(handle.reserved)), ShareHandle::kCuda);
    if (!read) return CUDA_ERROR_INVALID_VALUE;
    int ordinal = context.device;  // stays this for a GPU that the process does not see
    Device* const device = runtime.device_of_node(read->gpu, ordinal);
    if (device == nullptr) return CUDA_ERROR_MAP_FAILED;
    hbmwire::emulation::GpuMemory* const memory = memory_of(*device);
    if (memory == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
    std::uint64_t opened = 0;
    const CUresult result = runtime.addresses().open(
        {memory, ordinal, context.handle, context.device, read->key}, opened);
    if (result == CUDA_SUCCESS) *address = opened;
    return result;
  });
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  return context_entry_point("cuIpcCloseMemHandle", [&](Runtime& runtime, Context&) {
    wait_for_everything(runtime);
    return runtime.addresses().close(address);
  });
}

// SPDX-License-Identifier: MIT
//
// Contexts, and the context that is current on a thread.
#include "emulation/cuda/runtime.hpp"
#include "emulation/cuda/streams.hpp"

using namespace hbmwire::emulation::cuda;

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return entry_point("cuDevicePrimaryCtxRetain", [&](Runtime& runtime) {
    return context == nullptr ? CUDA_ERROR_INVALID_VALUE : runtime.retain_primary(device, *context);
  });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return entry_point("cuDevicePrimaryCtxRelease_v2",
                     [&](Runtime& runtime) { return runtime.release_primary(device); });
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  return entry_point("cuDevicePrimaryCtxGetState", [&](Runtime& runtime) {
    Device* const found = runtime.device(device);
    if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const std::lock_guard lock(found->mutex);
    *active = found->primary ? 1 : 0;
    *flags = found->primary ? found->primary->flags.load() : 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice device) {
  return entry_point("cuCtxCreate_v2", [&](Runtime& runtime) {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUresult made = runtime.create_context(device, flags, *context);
    if (made == CUDA_SUCCESS) Runtime::stack().push_back(*context);
    return made;
  });
}

CUresult cuCtxDestroy_v2(CUcontext context) {
  return entry_point("cuCtxDestroy_v2",
                     [&](Runtime& runtime) { return runtime.destroy_context(context); });
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  return entry_point("cuCtxGetCurrent", [&](Runtime&) {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *context = Runtime::stack().empty() ? nullptr : Runtime::stack().back();
    return CUDA_SUCCESS;
  });
}

// Replaces the current context; null removes it.
CUresult cuCtxSetCurrent(CUcontext context) {
  return entry_point("cuCtxSetCurrent", [&](Runtime& runtime) {
    if (context != nullptr && !runtime.context(context)) return CUDA_ERROR_INVALID_CONTEXT;
    auto& stack = Runtime::stack();
    if (!stack.empty()) stack.pop_back();
    if (context != nullptr) stack.push_back(context);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  return entry_point("cuCtxPushCurrent_v2", [&](Runtime& runtime) {
    if (!runtime.context(context)) return CUDA_ERROR_INVALID_CONTEXT;
    Runtime::stack().push_back(context);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  return entry_point("cuCtxPopCurrent_v2", [&](Runtime&) {
    auto& stack = Runtime::stack();
    if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (context != nullptr) *context = stack.back();
    stack.pop_back();
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetDevice(CUdevice* device) {
  return context_entry_point("cuCtxGetDevice", [&](Runtime&, Context& context) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *device = context.device;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetFlags(unsigned int* flags) {
  return context_entry_point("cuCtxGetFlags", [&](Runtime&, Context& context) {
    if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = context.flags.load();
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSetFlags(unsigned int flags) {
  return context_entry_point("cuCtxSetFlags", [&](Runtime&, Context& context) {
    context.flags = flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSynchronize() {
  return context_entry_point("cuCtxSynchronize", [](Runtime&, Context& context) {
    wait_for_all(context);
    return CUDA_SUCCESS;
  });
}

// If writes arrive in order anyway, there is nothing to do.
CUresult cuFlushGPUDirectRDMAWrites(int target, int scope) {
  return context_entry_point("cuFlushGPUDirectRDMAWrites", [&](Runtime& runtime, Context& context) {
    const bool known = target == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX &&
                       (scope == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER ||
                        scope == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES);
    if (!known) return CUDA_ERROR_INVALID_VALUE;
    if (has_trait(Trait::no_host_flush)) return CUDA_ERROR_NOT_SUPPORTED;
    runtime.device(context.device)->memory->flush();
    return CUDA_SUCCESS;
  });
}

// The version of the interface that the context was created with: that of cuCtxCreate_v2 and of
// primary contexts.
CUresult cuCtxGetApiVersion(CUcontext context, unsigned int* version) {
  return entry_point("cuCtxGetApiVersion", [&](Runtime& runtime) {
    constexpr unsigned kApiVersion = 3020;
    if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto known = context == nullptr ? runtime.current() : runtime.context(context);
    if (!known) return CUDA_ERROR_INVALID_CONTEXT;
    *version = kApiVersion;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return context_entry_point("cuCtxGetStreamPriorityRange", [&](Runtime&, Context&) {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = 0;
    return CUDA_SUCCESS;
  });
}

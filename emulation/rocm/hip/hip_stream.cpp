// SPDX-License-Identifier: MIT
//
// HIP: streams, and the copies and fills posted to them.
#include "emulation/rocm/hip/runtime.hpp"

using namespace hbmwire::emulation;
using namespace hbmwire::emulation::rocm;

namespace {

WorkQueue& null_stream(HipRuntime& runtime) {
  return *runtime.devices()[static_cast<std::size_t>(current_device())].null_stream;
}

/// Runs `body(stream)`: the null stream is the current device's.
template <typename Body>
hipError_t stream_entry_point(const char* call, hipStream_t handle, Body body) {
  return hip_entry_point(call, [&](HipRuntime& runtime) {
    if (handle == nullptr) return body(runtime, null_stream(runtime));
    const std::shared_ptr<WorkQueue> stream = runtime.streams().find(handle);
    return stream ? body(runtime, *stream) : hipErrorInvalidHandle;
  });
}

hipError_t wait_for(const WorkQueue& stream) {
  stream.progress()->wait(stream.progress()->posted());
  return static_cast<hipError_t>(stream.progress()->status());
}

bool known(hipMemcpyKind kind) { return kind >= hipMemcpyHostToHost && kind <= hipMemcpyDefault; }

hipError_t post_copy(const char* call, void* to, const void* from, std::size_t bytes,
                     hipStream_t handle) {
  return stream_entry_point(call, handle, [&](HipRuntime& runtime, WorkQueue& stream) {
    if (bytes != 0 && (to == nullptr || from == nullptr)) return hipErrorInvalidValue;
    stream.post([&runtime, to, from, bytes] { return copy_now(runtime, to, from, bytes); });
    return hipSuccess;
  });
}

/// After what the null stream has to do, and complete on return.
hipError_t copy_synchronously(const char* call, void* to, const void* from, std::size_t bytes) {
  return hip_entry_point(call, [&](HipRuntime& runtime) {
    if (bytes != 0 && (to == nullptr || from == nullptr)) return hipErrorInvalidValue;
    const WorkQueue& before = null_stream(runtime);
    before.progress()->wait(before.progress()->posted());
    return copy_now(runtime, to, from, bytes);
  });
}

}  // namespace

hipError_t hipMemcpy(void* dst, const void* src, size_t sizeBytes, hipMemcpyKind kind) {
  if (!known(kind)) return remember(hipErrorInvalidMemcpyDirection);
  return copy_synchronously("hipMemcpy", dst, src, sizeBytes);
}

hipError_t hipMemcpyHtoD(hipDeviceptr_t dst, void* src, size_t sizeBytes) {
  return copy_synchronously("hipMemcpyHtoD", dst, src, sizeBytes);
}

hipError_t hipMemcpyDtoH(void* dst, hipDeviceptr_t src, size_t sizeBytes) {
  return copy_synchronously("hipMemcpyDtoH", dst, src, sizeBytes);
}

hipError_t hipMemcpyDtoD(hipDeviceptr_t dst, hipDeviceptr_t src, size_t sizeBytes) {
  return copy_synchronously("hipMemcpyDtoD", dst, src, sizeBytes);
}

hipError_t hipMemcpyAsync(void* dst, const void* src, size_t sizeBytes, hipMemcpyKind kind,
                          hipStream_t stream) {
  if (!known(kind)) return remember(hipErrorInvalidMemcpyDirection);
  return post_copy("hipMemcpyAsync", dst, src, sizeBytes, stream);
}

hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t dst, void* src, size_t sizeBytes, hipStream_t stream) {
  return post_copy("hipMemcpyHtoDAsync", dst, src, sizeBytes, stream);
}

hipError_t hipMemcpyDtoHAsync(void* dst, hipDeviceptr_t src, size_t sizeBytes, hipStream_t stream) {
  return post_copy("hipMemcpyDtoHAsync", dst, src, sizeBytes, stream);
}

hipError_t hipMemset(void* dst, int value, size_t sizeBytes) {
  return hip_entry_point("hipMemset", [&](HipRuntime& runtime) {
    if (dst == nullptr && sizeBytes != 0) return hipErrorInvalidValue;
    return fill_now(runtime, dst, value, sizeBytes);
  });
}

hipError_t hipMemsetAsync(void* dst, int value, size_t sizeBytes, hipStream_t stream) {
  return stream_entry_point("hipMemsetAsync", stream, [&](HipRuntime& runtime, WorkQueue& queue) {
    if (dst == nullptr && sizeBytes != 0) return hipErrorInvalidValue;
    queue.post(
        [&runtime, dst, value, sizeBytes] { return fill_now(runtime, dst, value, sizeBytes); });
    return hipSuccess;
  });
}

hipError_t hipStreamCreate(hipStream_t* stream) {
  return hip_entry_point("hipStreamCreate", [&](HipRuntime& runtime) {
    if (stream == nullptr) return hipErrorInvalidValue;
    *stream = runtime.streams().add(std::make_shared<WorkQueue>(0));
    return hipSuccess;
  });
}

hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned int flags) {
  if (flags != hipStreamDefault && flags != hipStreamNonBlocking)
    return remember(hipErrorInvalidValue);
  return hipStreamCreate(stream);
}

hipError_t hipStreamDestroy(hipStream_t stream) {
  return hip_entry_point("hipStreamDestroy", [&](HipRuntime& runtime) {
    return runtime.streams().remove(stream) ? hipSuccess : hipErrorInvalidHandle;
  });
}

hipError_t hipStreamQuery(hipStream_t stream) {
  return stream_entry_point("hipStreamQuery", stream, [](HipRuntime&, WorkQueue& queue) {
    if (!queue.progress()->idle()) return hipErrorNotReady;
    return static_cast<hipError_t>(queue.progress()->status());
  });
}

hipError_t hipStreamSynchronize(hipStream_t stream) {
  return stream_entry_point("hipStreamSynchronize", stream,
                            [](HipRuntime&, WorkQueue& queue) { return wait_for(queue); });
}

hipError_t hipDeviceSynchronize(void) {
  return hip_entry_point("hipDeviceSynchronize", [](HipRuntime& runtime) {
    hipError_t error = wait_for(null_stream(runtime));
    for (const auto& [handle, stream] : runtime.streams().all()) {
      if (const hipError_t own = wait_for(*stream); error == hipSuccess) error = own;
    }
    return error;
  });
}

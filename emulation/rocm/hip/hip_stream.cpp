// SPDX-License-Identifier: MIT
//
// HIP: streams, and the copies and fills posted to them.
#include "emulation/rocm/hip/streams.hpp"

using namespace hbmwire::emulation;
using namespace hbmwire::emulation::rocm;

namespace {

/// Runs `body(runtime, stream)`.
template <typename Body>
hipError_t stream_entry_point(const char* call, hipStream_t handle, Body body) {
  return hip_entry_point(call, [&](HipRuntime& runtime) {
    const std::shared_ptr<Stream> stream = find_stream(runtime, handle);
    return stream ? body(runtime, *stream) : hipErrorInvalidHandle;
  });
}

bool is_known(hipMemcpyKind kind) {
  return kind >= hipMemcpyHostToHost && kind <= hipMemcpyDefault;
}

hipError_t post_copy(const char* call, void* to, const void* from, std::size_t bytes,
                     hipStream_t handle) {
  return stream_entry_point(call, handle, [&](HipRuntime& runtime, Stream& stream) {
    if (bytes != 0 && (to == nullptr || from == nullptr)) return hipErrorInvalidValue;
    post(runtime, stream,
         [&runtime, to, from, bytes] { return copy_now(runtime, to, from, bytes); });
    return hipSuccess;
  });
}

/// The copy is complete when this returns.
hipError_t copy_synchronously(const char* call, void* to, const void* from, std::size_t bytes) {
  return hip_entry_point(call, [&](HipRuntime& runtime) {
    if (bytes != 0 && (to == nullptr || from == nullptr)) return hipErrorInvalidValue;
    wait_for_turn(runtime);
    return copy_now(runtime, to, from, bytes);
  });
}

}  // namespace

hipError_t hipMemcpy(void* dst, const void* src, size_t sizeBytes, hipMemcpyKind kind) {
  if (!is_known(kind)) return remember(hipErrorInvalidMemcpyDirection);
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
  if (!is_known(kind)) return remember(hipErrorInvalidMemcpyDirection);
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
    wait_for_turn(runtime);
    return fill_now(runtime, dst, value, sizeBytes);
  });
}

hipError_t hipMemsetAsync(void* dst, int value, size_t sizeBytes, hipStream_t handle) {
  return stream_entry_point("hipMemsetAsync", handle, [&](HipRuntime& runtime, Stream& stream) {
    if (dst == nullptr && sizeBytes != 0) return hipErrorInvalidValue;
    post(runtime, stream,
         [&runtime, dst, value, sizeBytes] { return fill_now(runtime, dst, value, sizeBytes); });
    return hipSuccess;
  });
}

hipError_t hipStreamCreate(hipStream_t* stream) {
  return hipStreamCreateWithFlags(stream, hipStreamDefault);
}

hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned int flags) {
  return hip_entry_point("hipStreamCreate", [&](HipRuntime& runtime) {
    if (stream == nullptr || (flags != hipStreamDefault && flags != hipStreamNonBlocking))
      return hipErrorInvalidValue;
    const bool blocking = flags == hipStreamDefault;
    *stream = runtime.streams().add(std::make_shared<Stream>(current_device(), blocking));
    return hipSuccess;
  });
}

// There is one priority, as hipDeviceGetStreamPriorityRange() says. Other values mean the nearest
// one.
hipError_t hipStreamCreateWithPriority(hipStream_t* stream, unsigned int flags, int /*priority*/) {
  return hipStreamCreateWithFlags(stream, flags);
}

hipError_t hipStreamDestroy(hipStream_t stream) {
  return hip_entry_point("hipStreamDestroy", [&](HipRuntime& runtime) {
    return runtime.streams().remove(stream) ? hipSuccess : hipErrorInvalidHandle;
  });
}

hipError_t hipStreamQuery(hipStream_t stream) {
  return stream_entry_point("hipStreamQuery", stream, [](HipRuntime&, const Stream& found) {
    const auto& progress = found.queue.progress();
    return progress->idle() ? static_cast<hipError_t>(progress->status()) : hipErrorNotReady;
  });
}

hipError_t hipStreamSynchronize(hipStream_t stream) {
  return stream_entry_point("hipStreamSynchronize", stream,
                            [](HipRuntime&, const Stream& found) { return wait_for(found); });
}

hipError_t hipDeviceSynchronize(void) {
  return hip_entry_point("hipDeviceSynchronize", [](HipRuntime& runtime) {
    return wait_for_device(runtime, current_device());
  });
}

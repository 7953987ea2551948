// SPDX-License-Identifier: MIT
//
// Copies and fills.
#include <bit>

#include "emulation/cuda/copies.hpp"

using namespace hbmwire::emulation::cuda;

namespace {

std::uint64_t number(const void* pointer) { return std::bit_cast<std::uint64_t>(pointer); }

CUresult copy(const char* call, const CopyRequest& request, Between between) {
  return context_entry_point(call, [&](Runtime& runtime, Context& context) {
    return hbmwire::emulation::cuda::copy(runtime, context, request, between);
  });
}

CUresult copy(const char* call, const CopyRequest& request, Between between, CUstream stream) {
  return context_entry_point(call, [&](Runtime& runtime, Context& context) {
    return copy_async(runtime, context, request, between, stream);
  });
}

CUresult fill(const char* call, const FillRequest& request) {
  return context_entry_point(call, [&](Runtime& runtime, Context& context) {
    return hbmwire::emulation::cuda::fill(runtime, context, request);
  });
}

}  // namespace

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy("cuMemcpy", {to, from, bytes}, Between::anything);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy("cuMemcpyAsync", {to, from, bytes}, Between::anything, stream);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  return copy("cuMemcpyHtoD_v2", {to, number(from), bytes}, Between::host_to_device);
}

CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  return copy("cuMemcpyDtoH_v2", {number(to), from, bytes}, Between::device_to_host);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy("cuMemcpyDtoD_v2", {to, from, bytes}, Between::devices);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return copy("cuMemcpyHtoDAsync_v2", {to, number(from), bytes}, Between::host_to_device, stream);
}

CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy("cuMemcpyDtoHAsync_v2", {number(to), from, bytes}, Between::device_to_host, stream);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy("cuMemcpyDtoDAsync_v2", {to, from, bytes}, Between::devices, stream);
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  return fill("cuMemsetD8_v2", {to, value, 1, count});
}

CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count) {
  return fill("cuMemsetD32_v2", {to, value, 4, count});
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return context_entry_point("cuMemsetD8Async", [&](Runtime& runtime, Context& context) {
    return fill_async(runtime, context, {to, value, 1, count}, stream);
  });
}

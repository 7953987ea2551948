// SPDX-License-Identifier: MIT
//
// cuGetProcAddress: finds functions by their names without versions, for a CUDA version.
#include <string_view>

#include "emulation/common/not_modelled.hpp"
#include "emulation/cuda/runtime.hpp"

using namespace hbmwire::emulation;
using namespace hbmwire::emulation::cuda;

namespace {

struct Function {
  std::string_view name;
  int since;  ///< the CUDA version that added it
  void* address;
};

template <typename Pointer>
Function function(std::string_view name, int since, Pointer pointer) {
  return {name, since, reinterpret_cast<void*>(pointer)};
}

// If a function has several versions, later ones follow earlier ones.
// NOLINTNEXTLINE(readability-function-size): a table and a loop.
const Function* find_function(std::string_view name, int version, bool& known) {
  static const Function kFunctions[] = {
      function("cuInit", 2000, cuInit),
      function("cuDriverGetVersion", 2020, cuDriverGetVersion),
      function("cuGetErrorName", 6000, cuGetErrorName),
      function("cuGetErrorString", 6000, cuGetErrorString),
      function("cuGetProcAddress", 11030, cuGetProcAddress),
      function("cuGetProcAddress", 12000, cuGetProcAddress_v2),
      function("cuDeviceGetCount", 2000, cuDeviceGetCount),
      function("cuDeviceGet", 2000, cuDeviceGet),
      function("cuDeviceGetName", 2000, cuDeviceGetName),
      function("cuDeviceGetAttribute", 2000, cuDeviceGetAttribute),
      function("cuDeviceGetPCIBusId", 4010, cuDeviceGetPCIBusId),
      function("cuDeviceGetByPCIBusId", 4010, cuDeviceGetByPCIBusId),
      function("cuDeviceTotalMem", 3020, cuDeviceTotalMem_v2),
      function("cuDeviceComputeCapability", 2000, cuDeviceComputeCapability),
      function("cuDeviceCanAccessPeer", 4000, cuDeviceCanAccessPeer),
      function("cuDeviceGetUuid", 9020, cuDeviceGetUuid),
      function("cuDeviceGetUuid", 11040, cuDeviceGetUuid_v2),
      function("cuDevicePrimaryCtxRetain", 7000, cuDevicePrimaryCtxRetain),
      function("cuDevicePrimaryCtxRelease", 11000, cuDevicePrimaryCtxRelease_v2),
      function("cuDevicePrimaryCtxGetState", 7000, cuDevicePrimaryCtxGetState),
      function("cuCtxCreate", 3020, cuCtxCreate_v2),
      function("cuCtxDestroy", 4000, cuCtxDestroy_v2),
      function("cuCtxGetCurrent", 4000, cuCtxGetCurrent),
      function("cuCtxSetCurrent", 4000, cuCtxSetCurrent),
      function("cuCtxPushCurrent", 4000, cuCtxPushCurrent_v2),
      function("cuCtxPopCurrent", 4000, cuCtxPopCurrent_v2),
      function("cuCtxGetDevice", 2000, cuCtxGetDevice),
      function("cuCtxGetFlags", 7000, cuCtxGetFlags),
      function("cuCtxSetFlags", 12010, cuCtxSetFlags),
      function("cuCtxGetApiVersion", 3020, cuCtxGetApiVersion),
      function("cuCtxGetStreamPriorityRange", 5050, cuCtxGetStreamPriorityRange),
      function("cuCtxSynchronize", 2000, cuCtxSynchronize),
      function("cuFlushGPUDirectRDMAWrites", 11030, cuFlushGPUDirectRDMAWrites),
      function("cuMemGetInfo", 3020, cuMemGetInfo_v2),
      function("cuMemAlloc", 3020, cuMemAlloc_v2),
      function("cuMemAllocManaged", 6000, cuMemAllocManaged),
      function("cuMemFree", 3020, cuMemFree_v2),
      function("cuMemAllocHost", 3020, cuMemAllocHost_v2),
      function("cuMemHostAlloc", 2020, cuMemHostAlloc),
      function("cuMemHostGetDevicePointer", 3020, cuMemHostGetDevicePointer_v2),
      function("cuMemFreeHost", 2000, cuMemFreeHost),
      function("cuMemHostRegister", 6050, cuMemHostRegister_v2),
      function("cuMemHostUnregister", 4000, cuMemHostUnregister),
      function("cuMemGetAddressRange", 3020, cuMemGetAddressRange_v2),
      function("cuMemGetHandleForAddressRange", 11070, cuMemGetHandleForAddressRange),
      function("cuIpcGetMemHandle", 4010, cuIpcGetMemHandle),
      function("cuIpcOpenMemHandle", 11000, cuIpcOpenMemHandle_v2),
      function("cuIpcCloseMemHandle", 4010, cuIpcCloseMemHandle),
      function("cuPointerGetAttribute", 4000, cuPointerGetAttribute),
      function("cuPointerGetAttributes", 7000, cuPointerGetAttributes),
      function("cuPointerSetAttribute", 6000, cuPointerSetAttribute),
      function("cuMemGetAllocationGranularity", 10020, cuMemGetAllocationGranularity),
      function("cuMemCreate", 10020, cuMemCreate),
      function("cuMemRelease", 10020, cuMemRelease),
      function("cuMemRetainAllocationHandle", 11000, cuMemRetainAllocationHandle),
      function("cuMemAddressReserve", 10020, cuMemAddressReserve),
      function("cuMemAddressFree", 10020, cuMemAddressFree),
      function("cuMemMap", 10020, cuMemMap),
      function("cuMemUnmap", 10020, cuMemUnmap),
      function("cuMemSetAccess", 10020, cuMemSetAccess),
      function("cuMemcpy", 4000, cuMemcpy),
      function("cuMemcpyAsync", 4000, cuMemcpyAsync),
      function("cuMemcpyHtoD", 3020, cuMemcpyHtoD_v2),
      function("cuMemcpyDtoH", 3020, cuMemcpyDtoH_v2),
      function("cuMemcpyDtoD", 3020, cuMemcpyDtoD_v2),
      function("cuMemcpyHtoDAsync", 3020, cuMemcpyHtoDAsync_v2),
      function("cuMemcpyDtoHAsync", 3020, cuMemcpyDtoHAsync_v2),
      function("cuMemcpyDtoDAsync", 3020, cuMemcpyDtoDAsync_v2),
      function("cuMemsetD8", 3020, cuMemsetD8_v2),
      function("cuMemsetD8Async", 3020, cuMemsetD8Async),
      function("cuMemsetD32", 3020, cuMemsetD32_v2),
      function("cuStreamCreate", 2000, cuStreamCreate),
      function("cuStreamCreateWithPriority", 5050, cuStreamCreateWithPriority),
      function("cuStreamDestroy", 4000, cuStreamDestroy_v2),
      function("cuStreamSynchronize", 2000, cuStreamSynchronize),
      function("cuStreamQuery", 2000, cuStreamQuery),
      function("cuStreamWaitEvent", 3020, cuStreamWaitEvent),
      function("cuLaunchHostFunc", 10000, cuLaunchHostFunc),
      function("cuEventCreate", 2000, cuEventCreate),
      function("cuEventDestroy", 4000, cuEventDestroy_v2),
      function("cuEventRecord", 2000, cuEventRecord),
      function("cuEventQuery", 2000, cuEventQuery),
      function("cuEventSynchronize", 2000, cuEventSynchronize),
  };
  const Function* best = nullptr;
  for (const Function& candidate : kFunctions) {
    if (candidate.name != name) continue;
    known = true;
    if (candidate.since <= version) best = &candidate;
  }
  return best;
}

/// Finds a function that is exported but not modelled; each has one version here. Returns null for
/// a name that ends with a version or a kind of default stream, because callers do not use such
/// names.
void* not_modelled(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789";
  const auto end = name.find_last_not_of(kDigits);
  const bool versioned = end != std::string_view::npos && name.substr(0, end + 1).ends_with("_v");
  if (!name.starts_with("cu") || versioned || name.ends_with("_ptds") || name.ends_with("_ptsz"))
    return nullptr;
  return exported_function(reinterpret_cast<const void*>(&cuInit), name.data());
}

enum class Found : std::uint8_t { yes, no, not_yet };

CUresult look_up(const char* symbol, void** address, int version, Found& found) {
  if (symbol == nullptr || address == nullptr) return CUDA_ERROR_INVALID_VALUE;
  bool known = false;
  const Function* const match = find_function(symbol, version, known);
  *address = match == nullptr ? nullptr : match->address;
  found = match != nullptr ? Found::yes : known ? Found::not_yet : Found::no;
  if (found != Found::no) return CUDA_SUCCESS;
  *address = not_modelled(symbol);
  if (*address != nullptr) found = Found::yes;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuGetProcAddress(const char* symbol, void** address, int version, uint64_t /*flags*/) {
  Found found = Found::no;
  const CUresult result = look_up(symbol, address, version, found);
  return result == CUDA_SUCCESS && found != Found::yes ? CUDA_ERROR_NOT_FOUND : result;
}

// `status` is a CUDriverProcAddressQueryResult: 0, 1 no such symbol, 2 the version is not
// sufficient.
CUresult cuGetProcAddress_v2(const char* symbol, void** address, int version, uint64_t /*flags*/,
                             int* status) {
  Found found = Found::no;
  const CUresult result = look_up(symbol, address, version, found);
  if (result != CUDA_SUCCESS) return result;
  if (status != nullptr) *status = static_cast<int>(found);
  return status != nullptr || found == Found::yes ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

// SPDX-License-Identifier: MIT
#include "memory/cuda/driver.hpp"

#include <memory>
#include <mutex>
#include <type_traits>

#include "base/descriptors.hpp"

namespace hbmwire::memory::cuda {

namespace {

/// Looks functions up, and remembers the first required one that is missing.
class Binder {
 public:
  explicit Binder(const DynamicLibrary& library) : library_(library) {}

  template <class Pointer>
  void optional(Pointer& pointer, const char* name) const {
    pointer = library_.find<std::remove_pointer_t<Pointer>>(name);
  }

  template <class Pointer>
  void required(Pointer& pointer, const char* name) {
    optional(pointer, name);
    if (pointer == nullptr && missing_ == nullptr) missing_ = name;
  }

  [[nodiscard]] const char* missing() const { return missing_; }

 private:
  const DynamicLibrary& library_;
  const char* missing_ = nullptr;
};

}  // namespace

Result<const Driver*> Driver::shared() {
  static std::mutex mutex;
  static Driver* loaded = nullptr;  // never destroyed
  const std::scoped_lock lock(mutex);
  if (loaded == nullptr) {
    auto driver = std::make_unique<Driver>();
    HBMWIRE_TRY(driver->load());
    loaded = driver.release();
  }
  return loaded;
}

Result<void> Driver::load() {
  HBMWIRE_TRY_ASSIGN(library_, DynamicLibrary::open({"libcuda.so.1"}, Hint::no_cuda));
  Binder bind(library_);
  bind.required(init, "cuInit");
  bind.required(driver_get_version, "cuDriverGetVersion");
  bind.required(device_get_count, "cuDeviceGetCount");
  bind.required(device_get, "cuDeviceGet");
  bind.required(device_get_name, "cuDeviceGetName");
  bind.required(device_get_attribute, "cuDeviceGetAttribute");
  bind.required(device_get_pci_bus_id, "cuDeviceGetPCIBusId");
  bind.required(device_total_mem, "cuDeviceTotalMem_v2");
  bind.required(primary_context_retain, "cuDevicePrimaryCtxRetain");
  bind.required(primary_context_release, "cuDevicePrimaryCtxRelease_v2");
  bind.required(primary_context_get_state, "cuDevicePrimaryCtxGetState");
  bind.required(context_push, "cuCtxPushCurrent_v2");
  bind.required(context_pop, "cuCtxPopCurrent_v2");
  bind.required(mem_alloc, "cuMemAlloc_v2");
  bind.required(mem_free, "cuMemFree_v2");
  bind.required(mem_alloc_host, "cuMemAllocHost_v2");
  bind.required(mem_free_host, "cuMemFreeHost");
  bind.required(host_register, "cuMemHostRegister_v2");
  bind.required(host_unregister, "cuMemHostUnregister");
  bind.required(mem_get_address_range, "cuMemGetAddressRange_v2");
  bind.required(pointer_get_attributes, "cuPointerGetAttributes");
  bind.required(pointer_set_attribute, "cuPointerSetAttribute");
  bind.required(memcpy_to_device, "cuMemcpyHtoDAsync_v2");
  bind.required(memcpy_to_host, "cuMemcpyDtoHAsync_v2");
  bind.required(memcpy_anywhere, "cuMemcpyAsync");
  bind.required(stream_create, "cuStreamCreate");
  bind.required(stream_destroy, "cuStreamDestroy_v2");
  bind.required(stream_synchronize, "cuStreamSynchronize");
  bind.required(launch_host_function, "cuLaunchHostFunc");
  bind.required(event_create, "cuEventCreate");
  bind.required(event_destroy, "cuEventDestroy_v2");
  bind.required(event_record, "cuEventRecord");
  bind.required(event_query, "cuEventQuery");
  bind.required(event_synchronize, "cuEventSynchronize");
  bind.required(ipc_get_handle, "cuIpcGetMemHandle");
  bind.required(ipc_open_handle, "cuIpcOpenMemHandle_v2");
  bind.required(ipc_close_handle, "cuIpcCloseMemHandle");
  bind.optional(mem_get_handle, "cuMemGetHandleForAddressRange");
  bind.optional(flush_writes, "cuFlushGPUDirectRDMAWrites");
  bind.optional(context_get_flags, "cuCtxGetFlags");
  bind.optional(context_set_flags, "cuCtxSetFlags");
  if (bind.missing() == nullptr) return {};
  return tl::make_unexpected(make_error(Errc::not_supported, Stage::probe,
                                        "libcuda.so.1 lacks a function", bind.missing(),
                                        Hint::no_cuda));
}

Error cuda_error(Stage stage, const char* call, int result, std::string_view subject,
                 Hint hint) noexcept {
  Error error = make_error(Errc::system, stage, call, subject, hint);
  if (result == kOutOfMemory) error.code = Errc::exhausted;
  if (result == kNoDevice) error.code = Errc::not_found;
  if (result == kNotSupported) error.code = Errc::not_supported;
  if (result == kInvalidValue) error.code = Errc::invalid_argument;
  // The library calls cuInit first of all, so only a child by fork(2) sees this.
  if (result == kNotInitialized) error.hint = Hint::cuda_after_fork;
  error.number_kind = NumberKind::cuda_result;
  error.number = result;
  // If the call did not ask for memory of the GPU, the host has run out of something.
  const bool of_host = result == kOutOfMemory && hint != Hint::cuda_memory_exhausted;
  if (result == kOperatingSystem || of_host) name_reached_limit(error);
  return error;
}

}  // namespace hbmwire::memory::cuda

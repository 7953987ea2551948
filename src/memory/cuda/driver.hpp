// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hbmwire/error.hpp"
#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"

#include "base/destroy.hpp"
#include "base/dynamic_library.hpp"

// The part of libcuda.so.1 that the library uses, declared from NVIDIA's documentation of the
// driver API (CUDA 12.8). Names and versions are those that the library exports.
namespace hbmwire::memory::cuda {

using DevicePointer = unsigned long long;  // CUdeviceptr
using ContextHandle = void*;               // CUcontext
using StreamHandle = void*;                // CUstream
using EventHandle = void*;                 // CUevent
using HostFunction = void (*)(void* data);

/// CUipcMemHandle, which is passed by value.
struct IpcToken {
  std::array<std::byte, 64> bytes{};
};

/// Values of CUresult.
inline constexpr int kSuccess = 0;
inline constexpr int kInvalidValue = 1;
inline constexpr int kOutOfMemory = 2;
inline constexpr int kNotInitialized = 3;
inline constexpr int kDeinitialized = 4;
inline constexpr int kNoDevice = 100;
inline constexpr int kInvalidContext = 201;
inline constexpr int kMapFailed = 205;
inline constexpr int kAlreadyMapped = 208;
inline constexpr int kOperatingSystem = 304;
inline constexpr int kInvalidHandle = 400;
inline constexpr int kNotReady = 600;
inline constexpr int kNotSupported = 801;

/// Values of CUdevice_attribute.
inline constexpr int kIntegrated = 18;
inline constexpr int kGpuDirectRdmaSupported = 116;
inline constexpr int kFlushWritesOptions = 117;
inline constexpr int kDmabufSupported = 124;
/// CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST: the host may flush.
inline constexpr int kFlushByHost = 1;

/// Values of CUpointer_attribute.
inline constexpr int kPointerContext = 1;
inline constexpr int kPointerMemoryType = 2;
inline constexpr int kPointerSyncMemops = 6;
inline constexpr int kPointerBufferId = 7;
inline constexpr int kPointerIsManaged = 8;
inline constexpr int kPointerDeviceOrdinal = 9;
inline constexpr int kPointerRangeStart = 11;
inline constexpr int kPointerRangeSize = 12;
inline constexpr int kPointerRdmaCapable = 15;

/// CUmemorytype: memory that the host has allocated and pinned.
inline constexpr int kMemoryTypeHost = 1;

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kContextSyncMemops = 0x80;
inline constexpr int kDmabufFd = 1;
inline constexpr unsigned long long kPcieMapping = 1;
inline constexpr int kFlushCurrentContext = 0;
inline constexpr int kFlushToOwner = 100;

inline constexpr unsigned kHostPortable = 1;
inline constexpr unsigned kIpcLazyPeerAccess = 1;

static_assert(sizeof(DevicePointer) == 8);
static_assert(sizeof(IpcToken) == IpcHandle::kTokenBytes);

/// The functions of libcuda.so.1. All return a CUresult.
struct Driver {
  /// The driver of this process. It is never unloaded, because threads of the driver run in it.
  /// Errors: Stage::probe (no library, or it lacks a function).
  static Result<const Driver*> shared();

  int (*init)(unsigned flags) = nullptr;
  int (*driver_get_version)(int* version) = nullptr;
  int (*device_get_count)(int* count) = nullptr;
  int (*device_get)(int* device, int ordinal) = nullptr;
  int (*device_get_name)(char* name, int length, int device) = nullptr;
  int (*device_get_attribute)(int* value, int attribute, int device) = nullptr;
  int (*device_get_pci_bus_id)(char* address, int length, int device) = nullptr;
  int (*device_total_mem)(std::size_t* bytes, int device) = nullptr;
  int (*primary_context_retain)(ContextHandle* context, int device) = nullptr;
  int (*primary_context_release)(int device) = nullptr;
  int (*primary_context_get_state)(int device, unsigned* flags, int* active) = nullptr;
  int (*context_push)(ContextHandle context) = nullptr;
  int (*context_pop)(ContextHandle* context) = nullptr;
  int (*mem_alloc)(DevicePointer* address, std::size_t bytes) = nullptr;
  int (*mem_free)(DevicePointer address) = nullptr;
  int (*mem_alloc_host)(void** address, std::size_t bytes) = nullptr;
  int (*mem_free_host)(void* address) = nullptr;
  int (*host_register)(void* address, std::size_t bytes, unsigned flags) = nullptr;
  int (*host_unregister)(void* address) = nullptr;
  int (*mem_get_address_range)(DevicePointer* base, std::size_t* bytes,
                               DevicePointer address) = nullptr;
  int (*pointer_get_attributes)(unsigned count, int* attributes, void** data,
                                DevicePointer address) = nullptr;
  int (*pointer_set_attribute)(const void* value, int attribute, DevicePointer address) = nullptr;
  int (*memcpy_to_device)(DevicePointer to, const void* from, std::size_t bytes,
                          StreamHandle stream) = nullptr;
  int (*memcpy_to_host)(void* to, DevicePointer from, std::size_t bytes,
                        StreamHandle stream) = nullptr;
  /// Copies between any two addresses of this process (unified addressing), even of two GPUs.
  int (*memcpy_anywhere)(DevicePointer to, DevicePointer from, std::size_t bytes,
                         StreamHandle stream) = nullptr;
  int (*stream_create)(StreamHandle* stream, unsigned flags) = nullptr;
  int (*stream_destroy)(StreamHandle stream) = nullptr;
  int (*stream_synchronize)(StreamHandle stream) = nullptr;
  int (*launch_host_function)(StreamHandle stream, HostFunction function, void* data) = nullptr;
  int (*event_create)(EventHandle* event, unsigned flags) = nullptr;
  int (*event_destroy)(EventHandle event) = nullptr;
  int (*event_record)(EventHandle event, StreamHandle stream) = nullptr;
  int (*event_query)(EventHandle event) = nullptr;
  int (*event_synchronize)(EventHandle event) = nullptr;

  int (*ipc_get_handle)(IpcToken* token, DevicePointer address) = nullptr;
  int (*ipc_open_handle)(DevicePointer* address, IpcToken token, unsigned flags) = nullptr;
  int (*ipc_close_handle)(DevicePointer address) = nullptr;

  // Not in every driver; null if missing.
  int (*mem_get_handle)(void* handle, DevicePointer address, std::size_t bytes, int type,
                        unsigned long long flags) = nullptr;  // since 11.7
  int (*flush_writes)(int target, int scope) = nullptr;       // since 11.3
  int (*context_get_flags)(unsigned* flags) = nullptr;
  int (*context_set_flags)(unsigned flags) = nullptr;  // since 12.1

 private:
  Result<void> load();

  DynamicLibrary library_;
};

/// The error of a call that returned a CUresult.
[[nodiscard]] Error cuda_error(Stage stage, const char* call, int result, std::string_view subject,
                               Hint hint = Hint::none) noexcept;

/// An error unless the call succeeded.
[[nodiscard]] inline Result<void> check(Stage stage, const char* call, int result,
                                        std::string_view subject, Hint hint = Hint::none) noexcept {
  if (result == kSuccess) return {};
  return tl::make_unexpected(cuda_error(stage, call, result, subject, hint));
}

/// destroy_or_log() for functions that return a CUresult.
template <class Destroy>
void destroy_or_log_cuda(const char* call, Destroy destroy) noexcept {
  destroy_or_log(
      call, [&] { return destroy() == kSuccess ? 0 : -1; }, [](int /*result*/) { return 0; });
}

/// Makes a context current on this thread; its destructor restores the thread's former context.
class CurrentContext {
 public:
  CurrentContext(const Driver& driver, ContextHandle context) noexcept
      : driver_(driver), result_(driver.context_push(context)) {}

  /// Makes the context current in functions that release resources, and so cannot return an error:
  /// if the driver refuses, tries a second time. If that fails, too, nothing is made current.
  static CurrentContext insist(const Driver& driver, ContextHandle context) noexcept {
    const int result = driver.context_push(context);
    return {driver, result == kSuccess ? result : driver.context_push(context), Pushed{}};
  }

  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

  ~CurrentContext() {
    if (result_ != kSuccess) return;
    destroy_or_log_cuda("cuCtxPopCurrent", [&] { return driver_.context_pop(nullptr); });
  }

  [[nodiscard]] Result<void> status(Stage stage, std::string_view subject) const noexcept {
    return check(stage, "cuCtxPushCurrent", result_, subject);
  }

 private:
  /// Marks a context that was pushed already.
  struct Pushed {};

  CurrentContext(const Driver& driver, int result, Pushed /*already*/) noexcept
      : driver_(driver), result_(result) {}

  const Driver& driver_;
  int result_;
};

}  // namespace hbmwire::memory::cuda

// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <vector>

#include "emulation/common/gpu_memory.hpp"
#include "emulation/common/gpus.hpp"
#include "emulation/common/handle_table.hpp"
#include "emulation/common/work_queue.hpp"
#include "emulation/cuda/abi/cuda.h"
#include "emulation/cuda/address_space.hpp"
#include "emulation/cuda/traits.hpp"

namespace hbmwire::emulation::cuda {

/// A CUstream, or the default stream of a context.
struct Stream {
  explicit Stream(std::uint32_t delay_us, bool is_blocking)
      : queue(delay_us), blocking(is_blocking) {}

  WorkQueue queue;
  bool blocking;  ///< takes turns with the default stream
};

/// A CUcontext, with its streams.
struct Context {
  int device = 0;
  CUcontext handle = nullptr;
  bool primary = false;
  std::atomic<unsigned> flags{0};

  std::mutex mutex;
  std::shared_ptr<Stream> default_stream;  ///< made on first use
  std::map<CUstream, std::shared_ptr<Stream>> streams;
};

/// A GPU of this process. Its memory is mapped when the first context on it is created, so that a
/// GPU that is not used costs nothing.
struct Device {
  explicit Device(Gpu gpu_of) : gpu(std::move(gpu_of)) {}

  Gpu gpu;
  std::mutex mutex;
  std::unique_ptr<GpuMemory> memory;
  std::shared_ptr<Context> primary;  ///< null while it is not retained
  unsigned retained = 0;
};

/// The memory of the GPU, which is opened if necessary. Null if that fails.
GpuMemory* memory_of(Device& device);

/// The state that cuInit() creates. Never destroyed, because streams may still run when the process
/// ends.
class Runtime {
 public:
  static Runtime& instance();

  CUresult initialise();

  /// False in a forked child too, which cannot use the driver's state.
  [[nodiscard]] bool initialised() const { return initialised_.load(std::memory_order_acquire); }

  /// Returns null for an unknown ordinal.
  Device* device(int ordinal);

  /// Finds a GPU by its number in the node, even if this process does not see it; sets `ordinal` if
  /// it does. Returns null if there is no such GPU.
  Device* device_of_node(unsigned index, int& ordinal);

  [[nodiscard]] int device_count() const { return static_cast<int>(devices_.size()); }

  CUresult retain_primary(int ordinal, CUcontext& handle);
  CUresult release_primary(int ordinal);
  CUresult create_context(int ordinal, unsigned flags, CUcontext& handle);
  CUresult destroy_context(CUcontext handle);

  std::shared_ptr<Context> context(CUcontext handle) { return contexts_.find(handle); }

  std::map<std::uint64_t, std::shared_ptr<Context>> all_contexts() { return contexts_.all(); }

  /// The calling thread's current context, or null.
  std::shared_ptr<Context> current();

  /// The contexts of the calling thread. The last one is current.
  static std::vector<CUcontext>& stack();

  AddressSpace& addresses() { return addresses_; }

  HandleTable<CUmemGenericAllocationHandle, Physical>& physicals() { return physicals_; }

  HandleTable<CUevent, QueueEvent>& events() { return events_; }

  CUstream add_stream(Context& context, std::shared_ptr<Stream> stream);

 private:
  Runtime();
  CUresult make_context(Device& device, unsigned flags, std::shared_ptr<Context>& context);
  void take_down(const std::shared_ptr<Context>& context);

  std::mutex mutex_;
  std::atomic<bool> initialised_{false};
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<Device>> unseen_;        // CUDA_VISIBLE_DEVICES leaves them out
  std::atomic<std::uint64_t> next_stream_{0xc0'0000};  // does not look like a pointer
  HandleTable<CUcontext, Context> contexts_;
  HandleTable<CUevent, QueueEvent> events_;
  HandleTable<CUmemGenericAllocationHandle, Physical> physicals_;
  AddressSpace addresses_;
};

/// The error that the fault plan wants for this call.
CUresult injected_result(const char* call);
/// As injected_result(), for a call that programs repeat until it succeeds.
CUresult injected_poll(const char* call);

/// Wraps every entry point: applies faults, requires cuInit(), and lets no exception reach C code.
template <typename Body>
CUresult entry_point(const char* call, Body body,
                     CUresult (*injected)(const char*) = injected_result) noexcept {
  try {
    if (const CUresult result = injected(call); result != CUDA_SUCCESS) return result;
    Runtime& runtime = Runtime::instance();
    return runtime.initialised() ? body(runtime) : CUDA_ERROR_NOT_INITIALIZED;
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  } catch (const std::system_error&) {
    return CUDA_ERROR_OPERATING_SYSTEM;  // a stream's thread could not be started
  }
}

/// As entry_point(), for calls that need a current context. Passes the context on.
template <typename Body>
CUresult context_entry_point(const char* call, Body body,
                             CUresult (*injected)(const char*) = injected_result) noexcept {
  return entry_point(
      call,
      [&](Runtime& runtime) {
        const std::shared_ptr<Context> context = runtime.current();
        return context ? body(runtime, *context) : CUDA_ERROR_INVALID_CONTEXT;
      },
      injected);
}

}  // namespace hbmwire::emulation::cuda

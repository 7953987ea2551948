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

/// A CUstream, or the default one of a context.
struct Stream {
  explicit Stream(std::uint32_t delay_us, bool is_blocking)
      : queue(delay_us), blocking(is_blocking) {}

  WorkQueue queue;
  bool blocking;  ///< takes turns with the default stream
};

struct Context {
  int device = 0;
  CUcontext handle = nullptr;
  bool primary = false;
  std::atomic<unsigned> flags{0};

  std::mutex mutex;
  std::shared_ptr<Stream> default_stream;  ///< made on first use
  std::map<CUstream, std::shared_ptr<Stream>> streams;
};

/// One GPU of this process. Its memory is mapped when the first context on it is made, so that a
/// program that does not use a GPU pays nothing for it.
struct Device {
  explicit Device(Gpu gpu_of) : gpu(std::move(gpu_of)) {}

  Gpu gpu;
  std::mutex mutex;
  std::unique_ptr<GpuMemory> memory;
  std::shared_ptr<Context> primary;  ///< null while nobody has retained it
  unsigned retained = 0;
};

/// Opened when it was not yet; null when that fails.
GpuMemory* memory_of(Device& device);

/// What cuInit() makes. Never destroyed: streams may still run when the process ends.
class Runtime {
 public:
  static Runtime& instance();

  CUresult initialise();

  /// False also in a forked child, where the driver's state is of no use.
  [[nodiscard]] bool initialised() const { return initialised_.load(std::memory_order_acquire); }

  /// Null: no such ordinal.
  Device* device(int ordinal);

  /// A GPU by its number in the node, whether this process sees it or not, with its ordinal when it
  /// does. Null: there is none.
  Device* device_of_node(unsigned index, int& ordinal);

  [[nodiscard]] int device_count() const { return static_cast<int>(devices_.size()); }

  CUresult retain_primary(int ordinal, CUcontext& handle);
  CUresult release_primary(int ordinal);
  CUresult create_context(int ordinal, unsigned flags, CUcontext& handle);
  CUresult destroy_context(CUcontext handle);

  std::shared_ptr<Context> context(CUcontext handle) { return contexts_.find(handle); }

  std::map<std::uint64_t, std::shared_ptr<Context>> all_contexts() { return contexts_.all(); }

  /// The calling thread's, or null.
  std::shared_ptr<Context> current();

  /// Of the calling thread: the last is current.
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
  std::atomic<std::uint64_t> next_stream_{0xc0'0000};  // looks like no pointer
  HandleTable<CUcontext, Context> contexts_;
  HandleTable<CUevent, QueueEvent> events_;
  HandleTable<CUmemGenericAllocationHandle, Physical> physicals_;
  AddressSpace addresses_;
};

/// What the fault plan wants of this call.
CUresult injected_result(const char* call);
/// The same of a call that programs make over and over again until it says yes.
CUresult injected_poll(const char* call);

/// The frame of every entry point: faults, cuInit() first, and nothing is thrown into C.
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
    return CUDA_ERROR_OPERATING_SYSTEM;  // no thread for a stream
  }
}

/// The same for calls that need a current context, with that context.
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

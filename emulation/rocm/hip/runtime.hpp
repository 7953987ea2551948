// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "emulation/common/handle_table.hpp"
#include "emulation/common/work_queue.hpp"
#include "emulation/rocm/abi/hip.h"
#include "emulation/rocm/abi/hsa.h"

namespace hbmwire::emulation::rocm {

/// A hipStream_t, or the null stream of a device.
struct Stream {
  Stream(int of_device, bool is_blocking) : device(of_device), blocking(is_blocking) {}

  WorkQueue queue{0};
  int device;
  bool blocking;  ///< takes turns with the device's null stream
};

/// A GPU, numbered as HIP numbers them.
struct HipDevice {
  hsa_agent_t agent{};
  hsa_amd_memory_pool_t pool{};
  std::size_t memory_bytes = 0;
  std::uint32_t domain = 0;
  std::uint32_t bdf = 0;
  std::string name;
  bool large_bar = false;  ///< the CPU may be given access to its memory
  std::shared_ptr<Stream> null_stream;

  [[nodiscard]] std::string pci_address() const;
};

/// The state that the first call of HIP creates through ROCr's interface. The process keeps it
/// until it ends.
class HipRuntime {
 public:
  /// Returns null if ROCr cannot be initialised.
  static HipRuntime* instance();

  [[nodiscard]] const std::vector<HipDevice>& devices() const { return devices_; }

  [[nodiscard]] hsa_agent_t host() const { return host_; }

  [[nodiscard]] hsa_amd_memory_pool_t host_pool() const { return host_pool_; }

  HandleTable<hipStream_t, Stream>& streams() { return streams_; }

  /// Held while a job is posted to a stream that takes turns with others.
  std::mutex& posting() { return posting_; }

  /// The number of the device that owns an agent's memory; nullopt for the host.
  [[nodiscard]] std::optional<int> device_of(hsa_agent_t agent) const;

  /// Managed memory is host memory that GPUs reach by page faults, so ROCr does not know it.
  void* allocate_managed(std::size_t bytes);
  bool free_managed(void* base);
  /// The first address of the managed memory that contains an address, or null.
  void* find_managed(const void* address);

 private:
  bool discover();
  bool add_agent(hsa_agent_t agent);

  std::vector<HipDevice> devices_;
  hsa_agent_t host_{};
  hsa_amd_memory_pool_t host_pool_{};
  HandleTable<hipStream_t, Stream> streams_;
  std::mutex posting_;
  std::mutex managed_mutex_;
  std::map<std::uint64_t, std::size_t> managed_;
};

/// The device that hipSetDevice() has chosen for this thread.
int& current_device();

/// Stores an error for hipGetLastError(), and returns it.
hipError_t remember(hipError_t error);

hipError_t injected_error(const char* call);
hipError_t error_of(hsa_status_t status);

/// Wraps every entry point: applies faults, requires the runtime, and lets no exception reach C
/// code.
template <typename Body>
hipError_t hip_entry_point(const char* call, Body body) noexcept {
  try {
    if (const hipError_t error = injected_error(call); error != hipSuccess) return remember(error);
    HipRuntime* const runtime = HipRuntime::instance();
    return remember(runtime == nullptr ? hipErrorNoDevice : body(*runtime));
  } catch (const std::bad_alloc&) {
    return remember(hipErrorOutOfMemory);
  } catch (const std::system_error&) {
    return remember(hipErrorOperatingSystem);
  }
}

/// As hip_entry_point(), for calls about a device. Passes the device on.
template <typename Body>
hipError_t device_entry_point(const char* call, int device, Body body) noexcept {
  return hip_entry_point(call, [&](HipRuntime& runtime) {
    if (device < 0 || static_cast<std::size_t>(device) >= runtime.devices().size())
      return hipErrorInvalidDevice;
    return body(runtime.devices()[static_cast<std::size_t>(device)]);
  });
}

/// ROCr's information about an address; nullopt if a fault plan makes the call fail.
std::optional<hsa_amd_pointer_info_t> pointer_info(const void* address);

/// Whether the memory at an address was allocated from a pool: by this process, or by another one
/// whose memory is attached.
inline bool is_allocated(const hsa_amd_pointer_info_t& info) {
  return info.type == HSA_EXT_POINTER_TYPE_HSA || info.type == HSA_EXT_POINTER_TYPE_IPC;
}

/// Copies and fills between any addresses. They are complete on return.
hipError_t copy_now(HipRuntime& runtime, void* to, const void* from, std::size_t bytes);
hipError_t fill_now(HipRuntime& runtime, void* to, int value, std::size_t bytes);

}  // namespace hbmwire::emulation::rocm

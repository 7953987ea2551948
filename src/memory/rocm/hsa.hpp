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

// The part of libhsa-runtime64.so.1 that the library uses, declared from its documented binary
// interface (hsa.h 1.x and hsa_ext_amd.h 1.0 to 1.11 of ROCr). HIP needs no declarations: all its
// memory comes from ROCr, which knows it by address.
namespace hbmwire::memory::rocm {

/// hsa_agent_t, hsa_amd_memory_pool_t and hsa_signal_t: one opaque word each.
struct Agent {
  std::uint64_t handle = 0;

  bool operator==(const Agent&) const = default;
};

struct Pool {
  std::uint64_t handle = 0;
};

struct SignalHandle {
  std::uint64_t handle = 0;
};

/// hsa_amd_pointer_info_t. `size` tells ROCr how much of it the caller has.
struct PointerInfo {
  std::uint32_t size = sizeof(PointerInfo);
  std::uint32_t type = 0;
  void* agent_base = nullptr;
  void* host_base = nullptr;
  std::size_t size_bytes = 0;
  void* user_data = nullptr;
  Agent owner;
  std::uint32_t global_flags = 0;
};

static_assert(offsetof(PointerInfo, agent_base) == 8 && offsetof(PointerInfo, host_base) == 16);
static_assert(offsetof(PointerInfo, size_bytes) == 24 && offsetof(PointerInfo, owner) == 40);
static_assert(offsetof(PointerInfo, global_flags) == 48 && sizeof(PointerInfo) == 56);

/// hsa_amd_ipc_memory_t.
struct IpcToken {
  std::array<std::byte, 32> bytes{};
};

static_assert(sizeof(IpcToken) == 32 && sizeof(IpcToken) <= IpcHandle::kTokenBytes);

/// hsa_status_t.
inline constexpr int kHsaSuccess = 0;
inline constexpr int kHsaInfoBreak = 0x1;
inline constexpr int kHsaError = 0x1000;
inline constexpr int kHsaInvalidAllocation = 0x1003;
inline constexpr int kHsaOutOfResources = 0x1008;

/// hsa_system_info_t, hsa_agent_info_t, hsa_amd_agent_info_t.
inline constexpr int kSystemDmabufSupported = 0x204;
inline constexpr int kAgentName = 0;
inline constexpr int kAgentDevice = 17;
inline constexpr int kAgentBdfId = 0xA006;
inline constexpr int kAgentProductName = 0xA009;
inline constexpr int kAgentDomain = 0xA00F;
inline constexpr int kAgentNameBytes = 64;

/// hsa_device_type_t.
inline constexpr std::uint32_t kDeviceCpu = 0;
inline constexpr std::uint32_t kDeviceGpu = 1;

/// hsa_amd_memory_pool_info_t, hsa_amd_segment_t, hsa_amd_memory_pool_global_flag_t.
inline constexpr int kPoolSegment = 0;
inline constexpr int kPoolGlobalFlags = 1;
inline constexpr int kPoolSize = 2;
inline constexpr int kPoolAllocAllowed = 5;
inline constexpr int kPoolAllocGranule = 6;
inline constexpr std::uint32_t kSegmentGlobal = 0;
inline constexpr std::uint32_t kCoarseGrained = 4;

/// hsa_amd_agent_memory_pool_info_t, hsa_amd_memory_pool_access_t.
inline constexpr int kAgentPoolAccess = 0;
inline constexpr std::uint32_t kAccessNeverAllowed = 0;

/// hsa_amd_pointer_type_t.
inline constexpr std::uint32_t kPointerHsa = 1;
inline constexpr std::uint32_t kPointerLocked = 2;

/// Flags of hsa_amd_portable_export_dmabuf_v2: through PCIe, which needs a large BAR.
inline constexpr std::uint64_t kDmabufByPcie = 1;

/// hsa_signal_condition_t: less than. hsa_wait_state_t: blocked.
inline constexpr int kConditionLess = 2;
inline constexpr int kWaitBlocked = 0;

/// libhsa-runtime64.so.1, initialized. ROCr counts its initializations, so the application's
/// and the library's are independent.
class Hsa {
 public:
  /// Errors: Stage::probe (the library is missing, lacks a function, or finds no driver).
  Result<void> initialize();

  Hsa() = default;
  Hsa(const Hsa&) = delete;
  Hsa& operator=(const Hsa&) = delete;
  ~Hsa();

  // Names and types are the vendor's; each int is a hsa_status_t.
  int (*system_get_info)(int attribute, void* value) = nullptr;
  int (*iterate_agents)(int (*visit)(Agent agent, void* data), void* data) = nullptr;
  int (*agent_get_info)(Agent agent, int attribute, void* value) = nullptr;
  int (*iterate_pools)(Agent agent, int (*visit)(Pool pool, void* data), void* data) = nullptr;
  int (*pool_get_info)(Pool pool, int attribute, void* value) = nullptr;
  int (*agent_pool_get_info)(Agent agent, Pool pool, int attribute, void* value) = nullptr;
  int (*pool_allocate)(Pool pool, std::size_t size, std::uint32_t flags, void** address) = nullptr;
  int (*pool_free)(void* address) = nullptr;
  int (*pointer_info)(const void* address, PointerInfo* info, void* (*allocate)(std::size_t),
                      std::uint32_t* agent_count, Agent** agents) = nullptr;
  int (*memory_lock)(void* host, std::size_t size, Agent* agents, int agent_count,
                     void** agent_address) = nullptr;
  int (*memory_unlock)(void* host) = nullptr;
  int (*async_copy)(void* to, Agent to_agent, const void* from, Agent from_agent, std::size_t size,
                    std::uint32_t dependency_count, const SignalHandle* dependencies,
                    SignalHandle completion) = nullptr;
  int (*signal_create)(std::int64_t value, std::uint32_t consumer_count, const Agent* consumers,
                       SignalHandle* signal) = nullptr;
  int (*signal_destroy)(SignalHandle signal) = nullptr;
  std::int64_t (*signal_load)(SignalHandle signal) = nullptr;
  void (*signal_store)(SignalHandle signal, std::int64_t value) = nullptr;
  std::int64_t (*signal_wait)(SignalHandle signal, int condition, std::int64_t value,
                              std::uint64_t timeout, int wait_state) = nullptr;
  int (*register_deallocation)(void* address, void (*callback)(void* address, void* data),
                               void* data) = nullptr;
  int (*deregister_deallocation)(void* address,
                                 void (*callback)(void* address, void* data)) = nullptr;

  int (*ipc_create)(void* address, std::size_t size, IpcToken* token) = nullptr;
  int (*ipc_attach)(const IpcToken* token, std::size_t size, std::uint32_t agent_count,
                    const Agent* agents, void** address) = nullptr;
  int (*ipc_detach)(void* address) = nullptr;

  // Null if the release lacks them: the first came with ROCm 5.6, the second with 7.1.
  int (*export_dmabuf)(const void* address, std::size_t size, int* fd,
                       std::uint64_t* offset) = nullptr;
  int (*export_dmabuf_v2)(const void* address, std::size_t size, int* fd, std::uint64_t* offset,
                          std::uint64_t flags) = nullptr;

 private:
  Result<void> load();

  DynamicLibrary library_;
  int (*shut_down_)() = nullptr;
  bool initialized_ = false;
};

/// destroy_or_log() for functions that return a hsa_status_t.
template <class Destroy>
void destroy_or_log_hsa(const char* call, Destroy destroy) noexcept {
  destroy_or_log(
      call, [&] { return destroy() == kHsaSuccess ? 0 : -1; }, [](int /*result*/) { return 0; });
}

/// The error of a call that returned a hsa_status_t.
[[nodiscard]] Error hsa_error(Stage stage, const char* call, int status, std::string_view subject,
                              Hint hint = Hint::none) noexcept;

}  // namespace hbmwire::memory::rocm

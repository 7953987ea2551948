// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include "hbmwire/error.hpp"

#include "base/destroy.hpp"
#include "base/dynamic_library.hpp"

// The part of libSynapse.so that the library uses, declared from its documented binary interface
// (SynapseAI 1.18).
namespace hbmwire::memory::gaudi {

/// struct synDeviceInfoV2.
struct SynapseDeviceInfo {
  std::uint64_t sram_base;
  std::uint64_t dram_base;
  std::uint32_t sram_size;
  std::uint64_t dram_size;
  std::uint64_t tpc_enabled_mask;
  std::uint8_t dram_enabled;
  std::uint32_t device_id;  // synDeviceId
  std::uint32_t fd;         // the compute device, as hl-thunk has opened it
  std::int32_t device_type;
  std::uint8_t device_index;
  std::uint64_t
      global_hbm_base;  // start of the memory pool; 0 in releases that call the field reserved
};

static_assert(offsetof(SynapseDeviceInfo, fd) == 48 &&
              offsetof(SynapseDeviceInfo, global_hbm_base) == 64);

/// Values of synStatus and synDmaDir.
inline constexpr int kSynSuccess = 0;
inline constexpr int kSynOutOfHostMemory = 3;
inline constexpr int kSynOutOfDeviceMemory = 4;
inline constexpr int kSynNoDeviceFound = 8;
inline constexpr int kSynBusy = 22;
inline constexpr int kSynFail = 26;
inline constexpr int kSynOutOfResources = 27;
inline constexpr int kSynAlreadyInitialized = 29;
inline constexpr int kHostToDram = 0;
inline constexpr int kDramToHost = 1;
inline constexpr int kDramToDram = 2;

/// Makes synDeviceGetInfoV2 describe the device that this process has acquired, whatever its id.
inline constexpr std::uint32_t kCurrentDevice = 0xffffffffU;

using SynapseStream = void*;

/// libSynapse.so. SynapseAI exists once in a process, and so does this object: load() returns the
/// same one as long as it is held anywhere.
class Synapse {
 public:
  /// Loads the library, and does nothing else. Errors: Stage::probe.
  static Result<std::shared_ptr<Synapse>> load();

  /// Initializes SynapseAI, unless it is initialized already. If the application has initialized it
  /// before, the library never destroys it. So an application that uses SynapseAI itself must
  /// initialize it first. Thread-safe. Errors: Stage::probe.
  Result<void> make_ready();

  Synapse() = default;
  Synapse(const Synapse&) = delete;
  Synapse& operator=(const Synapse&) = delete;
  ~Synapse();

  // SynapseAI has one card in a process. Contexts share the card that this library has acquired.
  std::mutex card_mutex;    // also held while the card is acquired and released
  unsigned card_users = 0;  // domains that use the card; the last one releases it

  int (*initialize)() = nullptr;
  int (*destroy)() = nullptr;
  int (*device_get_count)(std::uint32_t* count) = nullptr;
  int (*device_acquire)(std::uint32_t* device, const char* pci_bus) = nullptr;
  int (*device_release)(std::uint32_t device) = nullptr;
  int (*device_get_info)(std::uint32_t device, SynapseDeviceInfo* info) = nullptr;
  int (*device_get_memory_info)(std::uint32_t device, std::uint64_t* free,
                                std::uint64_t* total) = nullptr;
  int (*device_malloc)(std::uint32_t device, std::uint64_t size, std::uint64_t wanted,
                       std::uint32_t flags, std::uint64_t* address) = nullptr;
  int (*device_free)(std::uint32_t device, std::uint64_t address, std::uint32_t flags) = nullptr;
  int (*host_malloc)(std::uint32_t device, std::uint64_t size, std::uint32_t flags,
                     void** address) = nullptr;
  int (*host_free)(std::uint32_t device, const void* address, std::uint32_t flags) = nullptr;
  int (*host_map)(std::uint32_t device, std::uint64_t size, const void* address) = nullptr;
  int (*host_unmap)(std::uint32_t device, const void* address) = nullptr;
  int (*stream_create)(SynapseStream* stream, std::uint32_t device, std::uint32_t flags) = nullptr;
  int (*stream_destroy)(SynapseStream stream) = nullptr;
  int (*stream_query)(SynapseStream stream) = nullptr;
  int (*mem_copy_async)(SynapseStream stream, std::uint64_t from, std::uint64_t size,
                        std::uint64_t to, int direction) = nullptr;

 private:
  Result<void> bind();
  [[nodiscard]] bool is_ready() const;

  DynamicLibrary library_;
  std::mutex mutex_;
  bool initialized_here_ = false;
};

/// destroy_or_log() for functions that return a synStatus.
template <class Destroy>
void destroy_or_log_synapse(const char* call, Destroy destroy) noexcept {
  destroy_or_log(
      call, [&] { return destroy() == kSynSuccess ? 0 : -1; }, [](int /*result*/) { return 0; });
}

/// The error of a call that returned a synStatus.
[[nodiscard]] Error synapse_error(Stage stage, const char* call, int status,
                                  std::string_view subject, Hint hint = Hint::none) noexcept;

}  // namespace hbmwire::memory::gaudi

// SPDX-License-Identifier: MIT
#include "memory/gaudi/synapse.hpp"

#include <mutex>
#include <type_traits>

#include "base/descriptors.hpp"

namespace hbmwire::memory::gaudi {

Result<std::shared_ptr<Synapse>> Synapse::load() {
  static std::mutex mutex;
  static std::weak_ptr<Synapse> current;
  const std::scoped_lock lock(mutex);
  if (auto synapse = current.lock()) return synapse;
  auto synapse = std::make_shared<Synapse>();
  HBMWIRE_TRY(synapse->bind());
  current = synapse;
  return synapse;
}

Synapse::~Synapse() {
  // If a card is acquired now, it is the application's: the library has released its own before.
  SynapseDeviceInfo info{};
  if (!initialized_here_ || device_get_info(kCurrentDevice, &info) == kSynSuccess) return;
  destroy_or_log_synapse("synDestroy", destroy);
}

// Whether SynapseAI is initialized already. A second synInitialize() may succeed like the first
// one, and its matching synDestroy() would take the card away from the first user. So the library
// asks first.
bool Synapse::is_ready() const {
  SynapseDeviceInfo info{};
  std::uint32_t count = 0;
  return device_get_info(kCurrentDevice, &info) == kSynSuccess ||
         device_get_count(&count) == kSynSuccess;
}

Result<void> Synapse::make_ready() {
  const std::scoped_lock lock(mutex_);
  if (is_ready()) return {};
  const int status = initialize();
  if (status != kSynSuccess && status != kSynAlreadyInitialized) {
    return tl::make_unexpected(
        synapse_error(Stage::probe, "synInitialize", status, {}, Hint::no_gaudi_device));
  }
  initialized_here_ = status == kSynSuccess;
  return {};
}

Result<void> Synapse::bind() {
  HBMWIRE_TRY_ASSIGN(library_,
                     DynamicLibrary::open({"libSynapse.so", "/usr/lib/habanalabs/libSynapse.so"},
                                          Hint::no_synapse));
  const char* missing = nullptr;
  const auto find = [&](auto& pointer, const char* name) {
    pointer =
        library_.find<std::remove_pointer_t<std::remove_reference_t<decltype(pointer)>>>(name);
    if (pointer == nullptr && missing == nullptr) missing = name;
  };
  find(initialize, "synInitialize");
  find(destroy, "synDestroy");
  find(device_get_count, "synDeviceGetCount");
  find(device_acquire, "synDeviceAcquire");
  find(device_release, "synDeviceRelease");
  find(device_get_info, "synDeviceGetInfoV2");
  find(device_get_memory_info, "synDeviceGetMemoryInfo");
  find(device_malloc, "synDeviceMalloc");
  find(device_free, "synDeviceFree");
  find(host_malloc, "synHostMalloc");
  find(host_free, "synHostFree");
  find(host_map, "synHostMap");
  find(host_unmap, "synHostUnmap");
  find(stream_create, "synStreamCreateGeneric");
  find(stream_destroy, "synStreamDestroy");
  find(stream_query, "synStreamQuery");
  find(mem_copy_async, "synMemCopyAsync");
  if (missing == nullptr) return {};
  return tl::make_unexpected(make_error(Errc::not_supported, Stage::probe,
                                        "libSynapse.so lacks a function", missing,
                                        Hint::no_synapse));
}

Error synapse_error(Stage stage, const char* call, int status, std::string_view subject,
                    Hint hint) noexcept {
  Error error = make_error(Errc::system, stage, call, subject, hint);
  if (status == kSynOutOfDeviceMemory) error.code = Errc::exhausted;
  if (status == kSynNoDeviceFound) error.code = Errc::not_found;
  error.number_kind = NumberKind::syn_status;
  error.number = status;
  // The operating system may have refused something to SynapseAI.
  if (status == kSynOutOfHostMemory || status == kSynFail || status == kSynOutOfResources)
    name_reached_limit(error);
  return error;
}

}  // namespace hbmwire::memory::gaudi

// SPDX-License-Identifier: MIT
#include "memory/gaudi/synapse.hpp"

#include <mutex>
#include <type_traits>

namespace hbmwire::memory::gaudi {

Result<std::shared_ptr<Synapse>> Synapse::shared() {
  static std::mutex mutex;
  static std::weak_ptr<Synapse> current;
  const std::scoped_lock lock(mutex);
  if (auto synapse = current.lock()) return synapse;
  auto synapse = std::make_shared<Synapse>();
  HBMWIRE_TRY(synapse->load());
  const int status = synapse->initialize();
  if (status != kSynSuccess && status != kSynAlreadyInitialized) {
    return tl::make_unexpected(
        synapse_error(Stage::probe, "synInitialize", status, {}, Hint::no_gaudi_device));
  }
  synapse->initialized_here_ = status == kSynSuccess;
  current = synapse;
  return synapse;
}

Synapse::~Synapse() {
  if (!initialized_here_) return;
  destroy_or_log_synapse("synDestroy", destroy);
}

Result<void> Synapse::load() {
  HBMWIRE_TRY_ASSIGN(library_,
                     DynamicLibrary::open({"libSynapse.so", "/usr/lib/habanalabs/libSynapse.so"},
                                          Hint::no_synapse));
  const char* missing = nullptr;
  const auto bind = [&](auto& pointer, const char* name) {
    pointer =
        library_.find<std::remove_pointer_t<std::remove_reference_t<decltype(pointer)>>>(name);
    if (pointer == nullptr && missing == nullptr) missing = name;
  };
  bind(initialize, "synInitialize");
  bind(destroy, "synDestroy");
  bind(device_get_count, "synDeviceGetCount");
  bind(device_acquire, "synDeviceAcquire");
  bind(device_release, "synDeviceRelease");
  bind(device_get_info, "synDeviceGetInfoV2");
  bind(device_get_memory_info, "synDeviceGetMemoryInfo");
  bind(device_malloc, "synDeviceMalloc");
  bind(device_free, "synDeviceFree");
  bind(host_malloc, "synHostMalloc");
  bind(host_free, "synHostFree");
  bind(stream_create, "synStreamCreateGeneric");
  bind(stream_destroy, "synStreamDestroy");
  bind(stream_synchronize, "synStreamSynchronize");
  bind(mem_copy_async, "synMemCopyAsync");
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
  return error;
}

}  // namespace hbmwire::memory::gaudi

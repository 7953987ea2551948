// SPDX-License-Identifier: MIT
#include "memory/rocm/hsa.hpp"

#include <type_traits>

#include "base/descriptors.hpp"

namespace hbmwire::memory::rocm {

namespace {

Errc classify(int status) noexcept {
  switch (status) {
    case 0x1001:  // invalid argument
    case kHsaInvalidAllocation:
    case 0x1004:  // invalid agent
      return Errc::invalid_argument;
    case kHsaOutOfResources:
      return Errc::exhausted;
    case 46:  // resource busy
      return Errc::busy;
    case 47:  // not supported
      return Errc::not_supported;
    default:
      return Errc::system;
  }
}

}  // namespace

Result<void> Hsa::initialize() {
  HBMWIRE_TRY(load());
  auto* const init = library_.find<int()>("hsa_init");
  if (init == nullptr) {
    return tl::make_unexpected(make_error(Errc::not_supported, Stage::probe,
                                          "libhsa-runtime64.so.1 lacks a function", "hsa_init",
                                          Hint::no_rocm));
  }
  // Without /dev/kfd, or without permission to open it, ROCr reports that it is out of resources.
  if (const int status = init(); status != kHsaSuccess) {
    Error error = hsa_error(Stage::probe, "hsa_init", status, {}, Hint::no_rocm_device);
    if (status == kHsaOutOfResources && !is_shortage(error)) error.code = Errc::not_found;
    return tl::make_unexpected(error);
  }
  initialized_ = true;
  return {};
}

Hsa::~Hsa() {
  if (initialized_) destroy_or_log_hsa("hsa_shut_down", shut_down_);
}

Result<void> Hsa::load() {
  HBMWIRE_TRY_ASSIGN(library_, DynamicLibrary::open(
                                   {"libhsa-runtime64.so.1", "/opt/rocm/lib/libhsa-runtime64.so.1"},
                                   Hint::no_rocm));
  const char* missing = nullptr;
  const auto find = [&](auto& pointer, const char* name) {
    pointer =
        library_.find<std::remove_pointer_t<std::remove_reference_t<decltype(pointer)>>>(name);
    return pointer != nullptr;
  };
  const auto bind = [&](auto& pointer, const char* name) {
    if (!find(pointer, name) && missing == nullptr) missing = name;
  };
  bind(shut_down_, "hsa_shut_down");
  bind(system_get_info, "hsa_system_get_info");
  bind(iterate_agents, "hsa_iterate_agents");
  bind(agent_get_info, "hsa_agent_get_info");
  bind(iterate_pools, "hsa_amd_agent_iterate_memory_pools");
  bind(pool_get_info, "hsa_amd_memory_pool_get_info");
  bind(agent_pool_get_info, "hsa_amd_agent_memory_pool_get_info");
  bind(pool_allocate, "hsa_amd_memory_pool_allocate");
  bind(pool_free, "hsa_amd_memory_pool_free");
  bind(pointer_info, "hsa_amd_pointer_info");
  bind(memory_lock, "hsa_amd_memory_lock");
  bind(memory_unlock, "hsa_amd_memory_unlock");
  bind(async_copy, "hsa_amd_memory_async_copy");
  bind(signal_create, "hsa_signal_create");
  bind(signal_destroy, "hsa_signal_destroy");
  bind(signal_load, "hsa_signal_load_scacquire");
  bind(signal_store, "hsa_signal_store_screlease");
  bind(signal_wait, "hsa_signal_wait_scacquire");
  bind(register_deallocation, "hsa_amd_register_deallocation_callback");
  bind(deregister_deallocation, "hsa_amd_deregister_deallocation_callback");
  bind(ipc_create, "hsa_amd_ipc_memory_create");
  bind(ipc_attach, "hsa_amd_ipc_memory_attach");
  bind(ipc_detach, "hsa_amd_ipc_memory_detach");
  find(export_dmabuf, "hsa_amd_portable_export_dmabuf");
  find(export_dmabuf_v2, "hsa_amd_portable_export_dmabuf_v2");
  if (missing == nullptr) return {};
  return tl::make_unexpected(make_error(Errc::not_supported, Stage::probe,
                                        "libhsa-runtime64.so.1 lacks a function", missing,
                                        Hint::no_rocm));
}

Error hsa_error(Stage stage, const char* call, int status, std::string_view subject,
                Hint hint) noexcept {
  Error error = make_error(classify(status), stage, call, subject, hint);
  error.number_kind = NumberKind::hsa_status;
  error.number = status;
  if (status == kHsaOutOfResources || status == kHsaError) name_reached_limit(error);
  return error;
}

}  // namespace hbmwire::memory::rocm

// SPDX-License-Identifier: MIT
//
// The libraries as seen by a program that was built with the vendor's headers: by name and version,
// at run time.
#include <dlfcn.h>

#include <cstdlib>

#include "emulation/rocm/abi/hip.h"
#include "rocm_world.hpp"

namespace hbmwire::test {
namespace {

// The layouts in the vendor's headers.
static_assert(sizeof(hsa_amd_pointer_info_t) == 56);
static_assert(offsetof(hsa_amd_pointer_info_t, agentBaseAddress) == 8);
static_assert(offsetof(hsa_amd_pointer_info_t, sizeInBytes) == 24);
static_assert(offsetof(hsa_amd_pointer_info_t, agentOwner) == 40);
static_assert(offsetof(hsa_amd_pointer_info_t, global_flags) == 48);
static_assert(sizeof(hsa_amd_ipc_memory_t) == 32 && alignof(hsa_amd_ipc_memory_t) == 4);
static_assert(sizeof(hipPointerAttribute_t) == 32);
static_assert(offsetof(hipPointerAttribute_t, devicePointer) == 8);
static_assert(offsetof(hipPointerAttribute_t, isManaged) == 24);

TEST(RocmAbi, EveryFunctionOfRocrIsThereInItsVersion) {
  void* const library = ::dlopen("libhsa-runtime64.so.1", RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  for (const char* name : {"hsa_init",
                           "hsa_shut_down",
                           "hsa_status_string",
                           "hsa_system_get_info",
                           "hsa_iterate_agents",
                           "hsa_agent_get_info",
                           "hsa_amd_agent_iterate_memory_pools",
                           "hsa_amd_memory_pool_get_info",
                           "hsa_amd_agent_memory_pool_get_info",
                           "hsa_amd_memory_pool_allocate",
                           "hsa_amd_memory_pool_free",
                           "hsa_amd_agents_allow_access",
                           "hsa_amd_pointer_info",
                           "hsa_amd_pointer_info_set_userdata",
                           "hsa_amd_register_deallocation_callback",
                           "hsa_amd_deregister_deallocation_callback",
                           "hsa_amd_portable_export_dmabuf",
                           "hsa_amd_portable_export_dmabuf_v2",
                           "hsa_amd_portable_close_dmabuf",
                           "hsa_amd_ipc_memory_create",
                           "hsa_amd_ipc_memory_attach",
                           "hsa_amd_ipc_memory_detach",
                           "hsa_amd_memory_lock",
                           "hsa_amd_memory_unlock",
                           "hsa_amd_memory_async_copy",
                           "hsa_amd_memory_fill",
                           "hsa_signal_create",
                           "hsa_signal_destroy",
                           "hsa_signal_load_scacquire",
                           "hsa_signal_store_screlease",
                           "hsa_signal_subtract_screlease",
                           "hsa_signal_wait_scacquire"}) {
    EXPECT_NE(::dlvsym(library, name, "ROCR_1"), nullptr) << name;
  }
}

TEST(RocmAbi, EveryFunctionOfHipIsThereInItsVersion) {
  void* const library = ::dlopen("libamdhip64.so.7", RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  for (const char* name : {"hipInit",
                           "hipGetDeviceCount",
                           "hipSetDevice",
                           "hipGetDevice",
                           "hipDeviceGetPCIBusId",
                           "hipDeviceGetByPCIBusId",
                           "hipDeviceGetAttribute",
                           "hipDeviceSynchronize",
                           "hipMalloc",
                           "hipFree",
                           "hipMallocManaged",
                           "hipHostMalloc",
                           "hipHostFree",
                           "hipHostRegister",
                           "hipHostUnregister",
                           "hipMemGetInfo",
                           "hipMemGetAddressRange",
                           "hipPointerGetAttributes",
                           "hipMemcpy",
                           "hipMemcpyAsync",
                           "hipMemcpyHtoD",
                           "hipMemcpyDtoH",
                           "hipMemcpyDtoD",
                           "hipMemset",
                           "hipMemsetAsync",
                           "hipStreamCreate",
                           "hipStreamCreateWithFlags",
                           "hipStreamDestroy",
                           "hipStreamQuery",
                           "hipStreamSynchronize",
                           "hipGetErrorName",
                           "hipGetErrorString",
                           "hipGetLastError"}) {
    EXPECT_NE(::dlvsym(library, name, "hip_4.2"), nullptr) << name;
  }
  EXPECT_NE(::dlvsym(library, "hipMemGetHandleForAddressRange", "hip_6.5"), nullptr);
}

/// Makes calls before, between and after pairs of hsa_init() and hsa_shut_down(), in a process that
/// has made none yet. Returns the number of calls with a wrong result.
int count_wrong_results() {
  hsa_signal_t signal{};
  int wrong = hsa_shut_down() == HSA_STATUS_ERROR_NOT_INITIALIZED ? 0 : 1;
  wrong += hsa_init() == HSA_STATUS_SUCCESS ? 0 : 1;
  wrong += hsa_init() == HSA_STATUS_SUCCESS ? 0 : 1;
  wrong += hsa_shut_down() == HSA_STATUS_SUCCESS ? 0 : 1;
  wrong += hsa_signal_create(1, 0, nullptr, &signal) == HSA_STATUS_SUCCESS ? 0 : 1;
  wrong += hsa_shut_down() == HSA_STATUS_SUCCESS ? 0 : 1;
  const hsa_status_t after = hsa_signal_create(1, 0, nullptr, &signal);
  return wrong + (after == HSA_STATUS_ERROR_NOT_INITIALIZED ? 0 : 1);
}

TEST(RocmAbi, InitializationsAreCounted) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // in a newly started process
  EXPECT_EXIT(std::_Exit(count_wrong_results()), testing::ExitedWithCode(0), "");
}

TEST(RocmAbi, StatusesHaveNames) {
  const char* name = nullptr;
  EXPECT_EQ(hsa_status_string(HSA_STATUS_ERROR_INVALID_ALLOCATION, &name), HSA_STATUS_SUCCESS);
  EXPECT_STREQ(name, "HSA_STATUS_ERROR_INVALID_ALLOCATION");
  EXPECT_EQ(hsa_status_string(static_cast<hsa_status_t>(0x1777), &name),
            HSA_STATUS_ERROR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace hbmwire::test

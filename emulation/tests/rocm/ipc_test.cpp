// SPDX-License-Identifier: MIT
//
// hsa_amd_ipc_memory_...: the memory that has a handle, and attaching by handles.
#include <cerrno>
#include <cstdlib>
#include <random>

#include "emulation/rocm/abi/hip.h"
#include "emulation/rocm/testing_hooks.hpp"
#include "ipc_world.hpp"

namespace hbmwire::test {
namespace {

TEST_F(RocmIpc, AHandleIsOfAWholeAllocationOfAGpu) {
  const PoolMemory memory(gpu_pools_[0], 5000);
  const PoolMemory pinned(host_pool_, 5000);
  const std::string handle = handle_of(memory, 5000);
  EXPECT_EQ(handle_of(memory, 5000), handle);
  std::string none;
  EXPECT_EQ(create(memory.get(), 4999, none), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(create(memory.get(), 8192, none), HSA_STATUS_ERROR_INVALID_ARGUMENT)
      << "the allocation's whole pages";
  EXPECT_EQ(create(memory.get() + 4096, 904, none), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(create(pinned.get(), 5000, none), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(create(&none, 8, none), HSA_STATUS_ERROR_INVALID_ARGUMENT) << "the stack";
  EXPECT_EQ(create(nullptr, 5000, none), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hsa_amd_ipc_memory_create(memory.get(), 5000, nullptr),
            HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hbmwire_rocm_live_objects(0, "share"), 1U);
  EXPECT_EQ(none, std::string(kHandleDigits, '0')) << "nothing was made";
}

TEST_F(RocmIpc, AttachedMemoryIsTheOwnersMemory) {
  char* const address = attach_valid(other_.tell("offer 4194304 theirs"), 4194304);
  EXPECT_EQ(get(address, 6), "theirs");
  // Two blocks were offered, so 2097152 is the offset of the second.
  put(address + kBlock, "ours");
  EXPECT_EQ(other_.tell("read 2097152 4"), "ours");
  EXPECT_EQ(other_.tell("write 100 changed"), "0");
  const PoolMemory own(gpu_pools_[1], 4096);
  EXPECT_EQ(copy(own.get(), gpus_[1], address + 100, gpus_[0], 7), 0);
  EXPECT_EQ(copy(address + 200, gpus_[0], own.get(), gpus_[1], 7), 0) << "from another GPU";
  EXPECT_EQ(other_.tell("read 200 7"), "changed");
  EXPECT_EQ(hsa_amd_memory_fill(address, 0x6a6a6a6a, 2), HSA_STATUS_SUCCESS);
  EXPECT_EQ(other_.tell("read 0 8"), "jjjjjjjj");
  EXPECT_EQ(hsa_amd_ipc_memory_detach(address), HSA_STATUS_SUCCESS);
  EXPECT_EQ(other_.tell("read 200 7"), "changed") << "the owner still has its memory";
}

TEST_F(RocmIpc, AnAttachedPointerReportsItsType) {
  char* const address = attach_valid(other_.tell("offer 5000 text"), 5000);
  const hsa_amd_pointer_info_t info = info_of(address + 4999);
  EXPECT_EQ(info.type, HSA_EXT_POINTER_TYPE_IPC);
  EXPECT_EQ(info.agentBaseAddress, address);
  EXPECT_EQ(info.sizeInBytes, 5000U);
  EXPECT_EQ(info.agentOwner.handle, gpus_[0].handle);
  EXPECT_EQ(info_of(address + 5000).type, HSA_EXT_POINTER_TYPE_UNKNOWN);
  int mark = 0;
  EXPECT_EQ(hsa_amd_pointer_info_set_userdata(address, &mark), HSA_STATUS_SUCCESS);
  EXPECT_EQ(info_of(address).userData, &mark);
  EXPECT_EQ(copy(address, gpus_[0], address + 4998, gpus_[0], 4), -1) << "past its end";
  EXPECT_EQ(hsa_amd_ipc_memory_detach(address), HSA_STATUS_SUCCESS);
  EXPECT_EQ(info_of(address).type, HSA_EXT_POINTER_TYPE_UNKNOWN);
}

TEST_F(RocmIpc, AnAttachedPointerCannotBeFreedOrPassedOn) {
  char* const address = attach_valid(other_.tell("offer 4096 text"), 4096);
  const PoolMemory own(gpu_pools_[0], 4096);
  int fd = -1;
  std::uint64_t offset = 0;
  EXPECT_EQ(hsa_amd_portable_export_dmabuf(address, 4096, &fd, &offset),
            HSA_STATUS_ERROR_INVALID_ALLOCATION);
  EXPECT_EQ(fd, -1);
  std::string none;
  EXPECT_EQ(create(address, 4096, none), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hsa_amd_memory_pool_free(address), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hsa_amd_ipc_memory_detach(address + 1), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hsa_amd_ipc_memory_detach(own.get()), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hsa_amd_ipc_memory_detach(nullptr), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(get(address, 4), "text");
  EXPECT_EQ(hsa_amd_ipc_memory_detach(address), HSA_STATUS_SUCCESS);
  EXPECT_EQ(hsa_amd_ipc_memory_detach(address), HSA_STATUS_ERROR_INVALID_ARGUMENT);
}

TEST_F(RocmIpc, EachAttachIsDetachedByItself) {
  const std::string handle = other_.tell("offer 4096 text");
  char* const first = attach_valid(handle, 4096);
  char* const second = attach_valid(handle, 4096);
  EXPECT_EQ(hbmwire_rocm_live_objects(0, "ipc"), 2U);
  put(first, "both");
  EXPECT_EQ(hsa_amd_ipc_memory_detach(first), HSA_STATUS_SUCCESS);
  EXPECT_EQ(get(second, 4), "both");
  EXPECT_EQ(hsa_amd_ipc_memory_detach(second), HSA_STATUS_SUCCESS);
  EXPECT_EQ(hbmwire_rocm_live_objects(0, "ipc"), 0U);
  EXPECT_EQ(hbmwire_rocm_live_objects(0, "allocation"), 0U)
      << "attached memory is no allocation of this process";
}

TEST_F(RocmIpc, AttachingTakesTheWholeSizeAndGpusOnly) {
  const std::string handle = other_.tell("offer 5000 text");
  char* address = nullptr;
  EXPECT_EQ(attach(address, handle, 4999), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(attach(address, handle, 0), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(attach(address, handle, 5000, {host_}), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(attach(address, handle, 5000, {{12345}}), HSA_STATUS_ERROR_INVALID_AGENT);
  hsa_amd_ipc_memory_t read{};
  void* mapped = nullptr;
  EXPECT_EQ(hsa_amd_ipc_memory_attach(&read, 1, 1, nullptr, &mapped),
            HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hsa_amd_ipc_memory_attach(nullptr, 1, 0, nullptr, &mapped),
            HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hsa_amd_ipc_memory_attach(&read, 1, 0, nullptr, nullptr),
            HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hbmwire_rocm_live_objects(0, "ipc"), 0U);
  // The number of agents with access.
  const auto allowed = [](const char* pointer) {
    hsa_amd_pointer_info_t info{};
    info.size = sizeof info;
    std::uint32_t count = 0;
    hsa_agent_t* agents = nullptr;
    EXPECT_EQ(hsa_amd_pointer_info(pointer, &info, &std::malloc, &count, &agents),
              HSA_STATUS_SUCCESS);
    std::free(agents);
    return count;
  };
  ASSERT_EQ(attach(address, handle, 5000, {gpus_[1]}), HSA_STATUS_SUCCESS);
  EXPECT_EQ(allowed(address), 1U);
  EXPECT_EQ(hsa_amd_ipc_memory_detach(address), HSA_STATUS_SUCCESS);
  address = attach_valid(handle, 5000);
  EXPECT_EQ(allowed(address), 2U) << "all GPUs, if no agent is named";
  EXPECT_EQ(hsa_amd_ipc_memory_detach(address), HSA_STATUS_SUCCESS);
}

TEST_F(RocmIpc, HipTakesAnAttachedPointerForDeviceMemory) {
  char* const address = attach_valid(other_.tell("offer 4096 text"), 4096);
  char read[5] = {};
  EXPECT_EQ(hipMemcpy(read, address, 4, hipMemcpyDeviceToHost), hipSuccess);
  EXPECT_STREQ(read, "text");
  hipPointerAttribute_t attributes{};
  EXPECT_EQ(hipPointerGetAttributes(&attributes, address), hipSuccess);
  EXPECT_EQ(attributes.type, hipMemoryTypeDevice);
  void* base = nullptr;
  std::size_t bytes = 0;
  EXPECT_EQ(hipMemGetAddressRange(&base, &bytes, address + 9), hipSuccess);
  EXPECT_EQ(base, address);
  EXPECT_EQ(bytes, 4096U);
  EXPECT_EQ(hsa_amd_ipc_memory_detach(address), HSA_STATUS_SUCCESS);
}

TEST_F(RocmIpc, ForgedBytesAttachNothing) {
  const std::string good = other_.tell("offer 100 text");
  char mark = 0;
  char* address = &mark;
  std::mt19937 random(20261123);
  for (int i = 0; i < 500; ++i) {
    std::string noise;
    for (std::size_t digit = 0; digit < kHandleDigits; ++digit)
      noise += "0123456789abcdef"[random() % 16];
    EXPECT_EQ(attach(address, noise, 100), HSA_STATUS_ERROR_INVALID_ARGUMENT) << noise;
  }
  EXPECT_EQ(attach(address, "", 100), HSA_STATUS_ERROR_INVALID_ARGUMENT) << "nothing but zeros";
  for (std::size_t digit = 0; digit < good.size(); ++digit) {
    std::string wrong = good;
    wrong[digit] = wrong[digit] == '1' ? '2' : '1';
    EXPECT_EQ(attach(address, wrong, 100), HSA_STATUS_ERROR_INVALID_ARGUMENT) << wrong;
  }
  EXPECT_EQ(address, &mark);
}

TEST_F(RocmIpc, AFailingCallDoesNothing) {
  const std::string handle = other_.tell("offer 4096 text");
  const PoolMemory own(gpu_pools_[0], 4096);
  std::string made;
  hbmwire_rocm_fail_nth_call(0, ENOMEM);
  EXPECT_EQ(create(own.get(), 4096, made), HSA_STATUS_ERROR_OUT_OF_RESOURCES);
  EXPECT_EQ(hbmwire_rocm_live_objects(0, "share"), 0U);
  char* address = nullptr;
  hbmwire_rocm_fail_nth_call(0, EIO);
  EXPECT_EQ(attach(address, handle, 4096), HSA_STATUS_ERROR);
  EXPECT_EQ(hbmwire_rocm_live_objects(0, "ipc"), 0U);
  address = attach_valid(handle, 4096);
  hbmwire_rocm_fail_nth_call(0, EINVAL);
  EXPECT_EQ(hsa_amd_ipc_memory_detach(address), HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(get(address, 4), "text");
  EXPECT_EQ(hsa_amd_ipc_memory_detach(address), HSA_STATUS_SUCCESS);
}

}  // namespace
}  // namespace hbmwire::test

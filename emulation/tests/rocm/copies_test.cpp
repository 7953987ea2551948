// SPDX-License-Identifier: MIT
#include <cstdlib>
#include <vector>

#include "rocm_world.hpp"

namespace hbmwire::test {
namespace {

class RocmCopies : public RocmTest {
 protected:
  static hsa_signal_t make_signal(hsa_signal_value_t value) {
    hsa_signal_t signal{};
    EXPECT_EQ(hsa_signal_create(value, 0, nullptr, &signal), HSA_STATUS_SUCCESS);
    return signal;
  }

  /// Waits up to 10 s for a copy's signal to fall below 1. Returns its value: 0, or less if the
  /// copy failed.
  static hsa_signal_value_t wait(hsa_signal_t signal) {
    return hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_LT, 1, 10'000'000'000,
                                     HSA_WAIT_STATE_BLOCKED);
  }
};

TEST_F(RocmCopies, CopiesGoInAndOutAndBetweenGpus) {
  const PoolMemory first(gpu_pools_[0], 10000);
  const PoolMemory second(gpu_pools_[1], 10000);
  std::vector<char> out(10000, 'a');
  std::vector<char> back(10000);
  write_gpu(gpus_[0], host_, first.get(), out.data(), out.size());
  EXPECT_EQ(copy(second.get(), gpus_[1], first.get(), gpus_[0], 10000), 0);
  read_gpu(gpus_[1], host_, back.data(), second.get(), back.size());
  EXPECT_EQ(back, out);
}

TEST_F(RocmCopies, LockedMemoryIsSeenAtAnotherAddress) {
  std::vector<char> bytes(5000);
  void* seen_at = nullptr;
  ASSERT_EQ(hsa_amd_memory_lock(bytes.data() + 10, 4000, gpus_.data(), 1, &seen_at),
            HSA_STATUS_SUCCESS);
  EXPECT_NE(seen_at, bytes.data() + 10);
  const auto info = info_of(bytes.data() + 20);
  EXPECT_EQ(info.type, HSA_EXT_POINTER_TYPE_LOCKED);
  EXPECT_EQ(info.agentBaseAddress, seen_at);
  EXPECT_EQ(info.hostBaseAddress, bytes.data() + 10);
  EXPECT_EQ(info.agentOwner.handle, host_.handle);
  EXPECT_EQ(hsa_amd_memory_unlock(bytes.data() + 10), HSA_STATUS_SUCCESS);
  EXPECT_EQ(info_of(bytes.data() + 20).type, HSA_EXT_POINTER_TYPE_UNKNOWN);
}

TEST_F(RocmCopies, LocksAreCounted) {
  std::vector<char> bytes(4096);
  void* first = nullptr;
  void* second = nullptr;
  ASSERT_EQ(hsa_amd_memory_lock(bytes.data(), 4096, nullptr, 0, &first), HSA_STATUS_SUCCESS);
  ASSERT_EQ(hsa_amd_memory_lock(bytes.data(), 4096, nullptr, 0, &second), HSA_STATUS_SUCCESS);
  EXPECT_EQ(first, second);
  EXPECT_EQ(hsa_amd_memory_unlock(bytes.data()), HSA_STATUS_SUCCESS);
  EXPECT_EQ(info_of(bytes.data()).type, HSA_EXT_POINTER_TYPE_LOCKED);
  EXPECT_EQ(hsa_amd_memory_unlock(bytes.data()), HSA_STATUS_SUCCESS);
  EXPECT_EQ(info_of(bytes.data()).type, HSA_EXT_POINTER_TYPE_UNKNOWN);
}

TEST_F(RocmCopies, MemoryThatAGpuCannotSeeFailsTheCopy) {
  const PoolMemory memory(gpu_pools_[0], 4096);
  std::vector<char> unlocked(4096);
  EXPECT_LT(copy(memory.get(), gpus_[0], unlocked.data(), host_, 4096), 0);
  EXPECT_LT(copy(memory.get() + kBlock, gpus_[0], memory.get(), gpus_[0], 100), 0)
      << "no allocation";
  EXPECT_LT(copy(memory.get(), gpus_[0], memory.get() + 4000, gpus_[0], 200), 0)
      << "past the allocation";
}

TEST_F(RocmCopies, ACopyWaitsForTheSignalsThatItDependsOn) {
  const PoolMemory memory(gpu_pools_[0], 8);
  const PoolMemory pinned(host_pool_, 8);
  pinned.get()[0] = 1;
  const hsa_signal_t before = make_signal(2);
  const hsa_signal_t done = make_signal(1);
  ASSERT_EQ(
      hsa_amd_memory_async_copy(memory.get(), gpus_[0], pinned.get(), host_, 8, 1, &before, done),
      HSA_STATUS_SUCCESS);
  hsa_signal_subtract_screlease(before, 1);
  EXPECT_EQ(hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, 20'000'000,
                                      HSA_WAIT_STATE_BLOCKED),
            1)
      << "the other signal is not yet 0, so the copy waits";
  pinned.get()[0] = 5;  // before the copy begins, so it copies this value
  hsa_signal_store_screlease(before, 0);
  EXPECT_EQ(wait(done), 0);
  char got = 0;
  read_gpu(gpus_[0], host_, &got, memory.get(), 1);
  EXPECT_EQ(got, 5);
  EXPECT_EQ(hsa_signal_destroy(before), HSA_STATUS_SUCCESS);
  EXPECT_EQ(hsa_signal_destroy(done), HSA_STATUS_SUCCESS);
}

TEST_F(RocmCopies, CopiesWithWrongArgumentsAreRefused) {
  const PoolMemory memory(gpu_pools_[0], 8);
  const hsa_signal_t done = make_signal(1);
  char byte = 0;
  EXPECT_EQ(hsa_amd_memory_async_copy(nullptr, gpus_[0], &byte, host_, 1, 0, nullptr, done),
            HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hsa_amd_memory_async_copy(memory.get(), {3}, &byte, host_, 1, 0, nullptr, done),
            HSA_STATUS_ERROR_INVALID_AGENT);
  EXPECT_EQ(hsa_amd_memory_async_copy(memory.get(), gpus_[0], &byte, host_, 1, 0, nullptr, {}),
            HSA_STATUS_ERROR_INVALID_SIGNAL);
  EXPECT_EQ(hsa_amd_memory_async_copy(memory.get(), gpus_[0], &byte, host_, 1, 1, nullptr, done),
            HSA_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hsa_signal_destroy(done), HSA_STATUS_SUCCESS);
  EXPECT_EQ(hsa_signal_destroy(done), HSA_STATUS_ERROR_INVALID_SIGNAL);
}

TEST_F(RocmCopies, AFillIsCompleteOnReturn) {
  const PoolMemory memory(gpu_pools_[0], 4096);
  // Fills three words of four bytes, words 1 to 3.
  EXPECT_EQ(hsa_amd_memory_fill(memory.get() + 4, 0x01020304, 3), HSA_STATUS_SUCCESS);
  std::uint32_t words[5] = {};
  read_gpu(gpus_[0], host_, words, memory.get(), sizeof words);
  EXPECT_EQ(words[0], 0U);
  EXPECT_EQ(words[3], 0x01020304U);
  EXPECT_EQ(words[4], 0U) << "past the fill";
  EXPECT_EQ(hsa_amd_memory_fill(memory.get() + 1, 0, 1), HSA_STATUS_ERROR_INVALID_ARGUMENT)
      << "not aligned to 4 bytes";
}

/// Ends ROCr while a copy waits for a signal that never comes. Returns 0 if every call succeeds.
int end_during_a_copy() {
  if (hsa_init() != HSA_STATUS_SUCCESS) return 1;
  std::vector<hsa_agent_t> agents;
  const auto collect = [](hsa_agent_t agent, void* data) {
    static_cast<std::vector<hsa_agent_t>*>(data)->push_back(agent);
    return HSA_STATUS_SUCCESS;
  };
  hsa_signal_t never{};
  hsa_signal_t done{};
  char byte = 0;
  if (hsa_iterate_agents(collect, &agents) != HSA_STATUS_SUCCESS ||
      hsa_signal_create(1, 0, nullptr, &never) != HSA_STATUS_SUCCESS ||
      hsa_signal_create(1, 0, nullptr, &done) != HSA_STATUS_SUCCESS ||
      hsa_amd_memory_async_copy(&byte, agents[1], &byte, agents[0], 1, 1, &never, done) !=
          HSA_STATUS_SUCCESS)
    return 1;
  return hsa_shut_down() == HSA_STATUS_SUCCESS ? 0 : 1;
}

TEST(RocmEnd, ShuttingDownDoesNotWaitForACopyThatCannotBegin) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // in a newly started process
  EXPECT_EXIT(std::_Exit(end_during_a_copy()), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace hbmwire::test

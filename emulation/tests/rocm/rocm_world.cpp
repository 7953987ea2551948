// SPDX-License-Identifier: MIT
#include "rocm_world.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <string>
#include <utility>

#include "emulation/common/export_descriptor.hpp"
#include "emulation/rocm/testing_hooks.hpp"

namespace hbmwire::test {

namespace {

hsa_status_t collect_agent(hsa_agent_t agent, void* data) {
  static_cast<std::vector<hsa_agent_t>*>(data)->push_back(agent);
  return HSA_STATUS_SUCCESS;
}

/// An agent's last pool is its coarse-grained memory.
hsa_status_t last_pool(hsa_amd_memory_pool_t pool, void* data) {
  *static_cast<hsa_amd_memory_pool_t*>(data) = pool;
  return HSA_STATUS_SUCCESS;
}

hsa_amd_memory_pool_t coarse_pool(hsa_agent_t agent) {
  hsa_amd_memory_pool_t pool{};
  EXPECT_EQ(hsa_amd_agent_iterate_memory_pools(agent, &last_pool, &pool), HSA_STATUS_SUCCESS);
  return pool;
}

/// The variable that makes this program an OtherProcess.
constexpr const char* kTakeMost = "ROCM_TEST_TAKE_MOST";

hsa_status_t first_gpu(hsa_agent_t agent, void* data) {
  hsa_device_type_t type = HSA_DEVICE_TYPE_CPU;
  hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);
  if (type != HSA_DEVICE_TYPE_GPU) return HSA_STATUS_SUCCESS;
  *static_cast<hsa_agent_t*>(data) = agent;
  return HSA_STATUS_INFO_BREAK;
}

/// Allocates most of the first GPU, and keeps it. Returns whether that succeeded.
bool take_most() {
  hsa_agent_t gpu{};
  hsa_amd_memory_pool_t pool{};
  void* pointer = nullptr;
  return hsa_init() == HSA_STATUS_SUCCESS &&
         hsa_iterate_agents(&first_gpu, &gpu) == HSA_STATUS_INFO_BREAK &&
         hsa_amd_agent_iterate_memory_pools(gpu, &last_pool, &pool) == HSA_STATUS_SUCCESS &&
         hsa_amd_memory_pool_allocate(pool, OtherProcess::kMost, 0, &pointer) == HSA_STATUS_SUCCESS;
}

/// Runs before main(), so an OtherProcess runs no tests: it allocates the memory, writes whether it
/// has it, and waits until its input ends.
[[gnu::constructor]] void be_other_process() {
  if (std::getenv(kTakeMost) == nullptr) return;
  const char result = take_most() ? 1 : 0;
  char end = 0;
  if (::write(STDOUT_FILENO, &result, 1) == 1) [[maybe_unused]]
    const auto got = ::read(STDIN_FILENO, &end, 1);
  ::_exit(0);
}

}  // namespace

void RocmTest::SetUp() {
  ASSERT_EQ(hsa_init(), HSA_STATUS_SUCCESS);
  std::vector<hsa_agent_t> agents;
  ASSERT_EQ(hsa_iterate_agents(&collect_agent, &agents), HSA_STATUS_SUCCESS);
  ASSERT_EQ(agents.size(), 3U);
  host_ = agents[0];
  gpus_ = {agents[1], agents[2]};
  host_pool_ = coarse_pool(host_);
  gpu_pools_ = {coarse_pool(gpus_[0]), coarse_pool(gpus_[1])};
}

void RocmTest::TearDown() {
  for (unsigned gpu = 0; gpu < 2; ++gpu) {
    for (const char* kind :
         {"allocation", "range", "export", "share", "ipc", "host_allocation", "lock", "signal"}) {
      EXPECT_EQ(hbmwire_rocm_live_objects(gpu, kind), 0U) << kind;
    }
  }
  EXPECT_EQ(hsa_shut_down(), HSA_STATUS_SUCCESS);
}

PoolMemory::PoolMemory(hsa_amd_memory_pool_t pool, std::size_t bytes) {
  EXPECT_EQ(hsa_amd_memory_pool_allocate(pool, bytes, 0, &pointer_), HSA_STATUS_SUCCESS);
}

PoolMemory::~PoolMemory() { free(); }

void PoolMemory::free() {
  if (pointer_ == nullptr) return;
  EXPECT_EQ(hsa_amd_memory_pool_free(std::exchange(pointer_, nullptr)), HSA_STATUS_SUCCESS);
}

bool cpu_reaches(const void* address) {
  int ends[2] = {-1, -1};
  if (::pipe(ends) != 0) return false;
  const bool reached = ::write(ends[1], address, 1) == 1;
  for (const int end : ends) ::close(end);
  return reached;
}

hsa_amd_pointer_info_t info_of(const void* pointer) {
  hsa_amd_pointer_info_t info{};
  info.size = sizeof info;
  EXPECT_EQ(hsa_amd_pointer_info(pointer, &info, nullptr, nullptr, nullptr), HSA_STATUS_SUCCESS);
  return info;
}

hsa_signal_value_t copy(void* to, hsa_agent_t to_agent, const void* from, hsa_agent_t from_agent,
                        std::size_t bytes) {
  hsa_signal_t done{};
  EXPECT_EQ(hsa_signal_create(1, 0, nullptr, &done), HSA_STATUS_SUCCESS);
  EXPECT_EQ(hsa_amd_memory_async_copy(to, to_agent, from, from_agent, bytes, 0, nullptr, done),
            HSA_STATUS_SUCCESS);
  const hsa_signal_value_t value = hsa_signal_wait_scacquire(
      done, HSA_SIGNAL_CONDITION_LT, 1, 10'000'000'000, HSA_WAIT_STATE_BLOCKED);
  EXPECT_EQ(hsa_signal_destroy(done), HSA_STATUS_SUCCESS);
  return value;
}

void write_gpu(hsa_agent_t gpu, hsa_agent_t host, void* to, const void* from, std::size_t bytes) {
  void* seen_at = nullptr;
  auto* const own = const_cast<void*>(from);
  ASSERT_EQ(hsa_amd_memory_lock(own, bytes, nullptr, 0, &seen_at), HSA_STATUS_SUCCESS);
  EXPECT_EQ(copy(to, gpu, seen_at, host, bytes), 0);
  EXPECT_EQ(hsa_amd_memory_unlock(own), HSA_STATUS_SUCCESS);
}

void read_gpu(hsa_agent_t gpu, hsa_agent_t host, void* to, const void* from, std::size_t bytes) {
  void* seen_at = nullptr;
  ASSERT_EQ(hsa_amd_memory_lock(to, bytes, nullptr, 0, &seen_at), HSA_STATUS_SUCCESS);
  EXPECT_EQ(copy(seen_at, host, from, gpu, bytes), 0);
  EXPECT_EQ(hsa_amd_memory_unlock(to), HSA_STATUS_SUCCESS);
}

Imported::Imported(int dmabuf) {
  const std::string path = "/proc/self/fd/" + std::to_string(dmabuf);
  const int content = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  emulation::ExportDescriptor descriptor;
  EXPECT_EQ(::pread(content, &descriptor, sizeof descriptor, 0),
            static_cast<ssize_t>(sizeof descriptor));
  ::close(content);
  EXPECT_EQ(descriptor.segment_count, 0U);
  bytes_ = descriptor.length_bytes;
  const int file = ::open(descriptor.backing_path, O_RDWR | O_CLOEXEC);
  void* const mapped = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                              static_cast<off_t>(descriptor.offset_bytes));
  ::close(file);
  EXPECT_NE(mapped, MAP_FAILED);
  data_ = static_cast<char*>(mapped);
}

Imported::~Imported() { ::munmap(data_, bytes_); }

OtherProcess::OtherProcess() {
  std::array<int, 2> down{};
  std::array<int, 2> up{};
  EXPECT_EQ(::pipe2(down.data(), O_CLOEXEC), 0);
  EXPECT_EQ(::pipe2(up.data(), O_CLOEXEC), 0);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(down[0], STDIN_FILENO);
    ::dup2(up[1], STDOUT_FILENO);
    ::setenv(kTakeMost, "1", 1);
    ::execl("/proc/self/exe", "rocm_test", nullptr);  // this program, see be_other_process()
    ::_exit(1);
  }
  ::close(down[0]);
  ::close(up[1]);
  char result = 0;
  took_ = ::read(up[0], &result, 1) == 1 && result == 1;
  ::close(up[0]);
  to_child_ = down[1];
}

OtherProcess::~OtherProcess() {
  ::close(to_child_);
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
}

void OtherProcess::kill() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

}  // namespace hbmwire::test

// SPDX-License-Identifier: MIT
//
// Several processes, and the state that a killed one leaves.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "cuda_test_world.hpp"

namespace hbmwire::test {
namespace {

std::uint64_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  EXPECT_EQ(cuMemGetInfo_v2(&free, &total), CUDA_SUCCESS);
  return free;
}

/// The machine's memory that GPU 0's memory uses, in blocks of 512 bytes.
blkcnt_t blocks_in_use() {
  struct stat status {};

  const std::string hbm = std::string(std::getenv("HBMWIRE_EMULATION_NODE")) + "/cuda0/hbm";
  EXPECT_EQ(::stat(hbm.c_str(), &status), 0);
  return status.st_blocks;
}

/// Another program that has 64 MiB of GPU 0 (holder.cpp).
class OtherProcess {
 public:
  OtherProcess() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(ends[1], 1);
      ::execl(HBMWIRE_CUDA_HOLDER, HBMWIRE_CUDA_HOLDER, nullptr);
      ::_exit(1);
    }
    ::close(ends[1]);
    std::string text;
    char byte = 0;
    while (text.find("has its memory") == std::string::npos && ::read(ends[0], &byte, 1) == 1)
      text += byte;
    ::close(ends[0]);
  }

  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  ~OtherProcess() { kill(); }

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
};

constexpr std::size_t kOthersBytes = 64U << 20U;

class CudaProcesses : public CudaTest {};

TEST_F(CudaProcesses, TheMemoryOfAKilledProcessIsFreed) {
  const std::uint64_t before = free_bytes();
  const blkcnt_t blocks = blocks_in_use();
  OtherProcess other;
  EXPECT_EQ(free_bytes(), before - kOthersBytes);
  EXPECT_GE(blocks_in_use(), blocks + static_cast<blkcnt_t>(kOthersBytes / 512));
  const CUdeviceptr own = allocate(kGranule);
  put(own, "mine");
  EXPECT_EQ(get(own, 4), "mine");
  other.kill();
  EXPECT_EQ(free_bytes(), before - kGranule);
  EXPECT_LE(blocks_in_use(), blocks + static_cast<blkcnt_t>(kGranule / 512));
  EXPECT_EQ(get(own, 4), "mine");
  EXPECT_EQ(cuMemFree_v2(own), CUDA_SUCCESS);
}

TEST_F(CudaProcesses, AForkedChildHasNoDriver) {
  const CUdeviceptr address = allocate(100);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    const bool refused = cuMemcpyDtoH_v2(&byte, address, 1) == CUDA_ERROR_NOT_INITIALIZED &&
                         cuInit(0) == CUDA_ERROR_NOT_INITIALIZED;
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(cuMemFree_v2(address), CUDA_SUCCESS);
}

}  // namespace
}  // namespace hbmwire::test

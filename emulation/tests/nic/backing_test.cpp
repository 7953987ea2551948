// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>

#include "emulation/tests/nic/endpoint.hpp"

/// Mappings of dma-bufs' files that outlive their MRs.
namespace hbmwire::test {
namespace {

constexpr const char* kName = "nic-backing-test";

Fd make_memfd(std::size_t bytes) {
  Fd fd(::memfd_create(kName, MFD_CLOEXEC));
  EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  return fd;
}

Mr register_all(const Endpoint& at, const Fd& memfd, std::size_t bytes) {
  return Mr(ibv_reg_dmabuf_mr(at.pd.get(), 0, bytes, 0, memfd.get(), kAllAccess));
}

/// WRITEs the first `bytes` of an MR. Returns the page faults of this process during the post.
long count_faults_of_write(Pair& pair, const Mr& mr, std::uint32_t bytes) {
  Address target = pair.b.address();
  target.buffer = 0;
  target.rkey = mr->rkey;
  rusage before{};
  rusage after{};
  ::getrusage(RUSAGE_SELF, &before);
  EXPECT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, bytes, target), 0);
  ::getrusage(RUSAGE_SELF, &after);
  expect_completion(pair.a, 1);
  return after.ru_minflt - before.ru_minflt;
}

/// The bytes that this process has mapped of the memfds that make_memfd() made.
std::size_t mapped_bytes() {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  std::size_t bytes = 0;
  while (std::getline(maps, line)) {
    if (line.find(kName) == std::string::npos) continue;
    std::size_t end = 0;
    const std::size_t first = std::stoul(line, &end, 16);
    bytes += std::stoul(line.substr(end + 1), nullptr, 16) - first;
  }
  return bytes;
}

TEST(RegisterDmabufAgain, TheSecondRegistrationCausesFewerPageFaults) {
  constexpr std::uint32_t kBytes = 4 * kMiB;
  Pair pair({.bytes = kBytes}, {});
  const Fd memfd = make_memfd(kBytes);
  const long first = count_faults_of_write(pair, register_all(pair.b, memfd, kBytes), kBytes);
  EXPECT_GT(first, 50);
  // Not none: a sanitizer adds page faults of its own.
  EXPECT_LT(count_faults_of_write(pair, register_all(pair.b, memfd, kBytes), kBytes), first / 2);
}

TEST(RegisterDmabufAgain, AFileThatGrewIsReachedToItsEnd) {
  Pair pair({.bytes = kMiB}, {});
  const Fd memfd = make_memfd(kMiB);
  ASSERT_NE(register_all(pair.b, memfd, kMiB), nullptr);
  ASSERT_EQ(::ftruncate(memfd.get(), 2 * kMiB), 0);
  const Mr mr = register_all(pair.b, memfd, 2 * kMiB);
  ASSERT_NE(mr, nullptr);
  Address target = pair.b.address();
  target.buffer = 2 * kMiB - 6;
  target.rkey = mr->rkey;
  std::memcpy(pair.a.buffer.data(), "hello", 6);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 6, target), 0);
  expect_completion(pair.a, 1);
  char there[6] = {};
  ASSERT_EQ(::pread(memfd.get(), there, 6, 2 * kMiB - 6), 6);
  EXPECT_STREQ(there, "hello");
}

TEST(RegisterDmabufAgain, AtMostSixtyFourMebibytesStayMapped) {
  const Endpoint a;
  for (int i = 0; i < 4; ++i) {
    const Fd memfd = make_memfd(24 * kMiB);
    ASSERT_NE(register_all(a, memfd, 24 * kMiB), nullptr);
  }
  EXPECT_EQ(mapped_bytes(), 48 * kMiB) << "the last two files";
  const Fd large = make_memfd(65 * kMiB);
  ASSERT_NE(register_all(a, large, 65 * kMiB), nullptr);
  EXPECT_EQ(mapped_bytes(), 48 * kMiB) << "a file of more than 64 MiB is not kept";
  for (int i = 0; i < 20; ++i) {
    const Fd memfd = make_memfd(4096);
    ASSERT_NE(register_all(a, memfd, 4096), nullptr);
  }
  EXPECT_EQ(mapped_bytes(), 8 * 4096U) << "the last eight files";
}

/// A child does not have its parent's mappings (man ibv_fork_init).
TEST(RegisterDmabufAgain, AForkedChildMapsItsFilesAnew) {
  const Fd memfd = make_memfd(kMiB);
  const Fd other = make_memfd(kMiB);
  const Endpoint parent;
  const Mr kept = register_all(parent, memfd, kMiB);
  ASSERT_NE(register_all(parent, other, kMiB), nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    Pair pair({.bytes = kMiB}, {});
    for (const Fd* fd : {&memfd, &other}) {
      const Mr mr = register_all(pair.b, *fd, kMiB);
      if (mr == nullptr) ::_exit(2);
      count_faults_of_write(pair, mr, kMiB);
    }
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace hbmwire::test

// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "emulation/common/publish_export.hpp"
#include "emulation/tests/nic/endpoint.hpp"

/// The registration of memory and dma-bufs: what is refused, and which memory requests reach.
namespace hbmwire::test {
namespace {

constexpr std::uint64_t kIova = 0x1001001800000000;  // as on a Gaudi: not an address for a CPU

Fd make_memfd(std::size_t bytes) {
  Fd fd(::memfd_create("nic-test", MFD_CLOEXEC));
  EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  return fd;
}

std::string path_of(const Fd& fd) { return "/proc/self/fd/" + std::to_string(fd.get()); }

/// The dma-buf of an emulated card, as in emulation/docs/architecture.md: `bytes` at `offset` of
/// `backing`.
Fd make_export(const Fd& backing, std::uint64_t offset, std::size_t bytes) {
  emulation::ExportDescriptor descriptor;
  descriptor.offset_bytes = offset;
  descriptor.length_bytes = bytes;
  const std::string path =
      "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(backing.get());
  path.copy(descriptor.backing_path, sizeof descriptor.backing_path - 1);
  const Fd memfd = make_memfd(bytes);
  EXPECT_EQ(::pwrite(memfd.get(), &descriptor, sizeof descriptor, 0),
            static_cast<ssize_t>(sizeof descriptor));
  return Fd(::open(path_of(memfd).c_str(), O_PATH | O_CLOEXEC));
}

Mr register_dmabuf(const Endpoint& at, std::uint64_t offset, std::size_t length, std::uint64_t iova,
                   int fd, int access = kAllAccess) {
  return Mr(ibv_reg_dmabuf_mr(at.pd.get(), offset, length, iova, fd, access));
}

void expect_refused(const Mr& mr, int error) {
  EXPECT_EQ(mr, nullptr);
  EXPECT_EQ(errno, error) << std::strerror(errno);
}

TEST(RegisterMemory, RefusesTheSameAsTheKernel) {
  Endpoint a;
  char byte = 0;
  expect_refused(Mr((ibv_reg_mr)(a.pd.get(), &byte, 1, IBV_ACCESS_REMOTE_WRITE)), EINVAL);
  expect_refused(Mr((ibv_reg_mr)(a.pd.get(), &byte, 1, IBV_ACCESS_REMOTE_ATOMIC)), EINVAL);
  expect_refused(Mr((ibv_reg_mr)(a.pd.get(), reinterpret_cast<void*>(kIova), 1, 0)), EFAULT);
  void* read_only = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  expect_refused(Mr((ibv_reg_mr)(a.pd.get(), read_only, 4096, IBV_ACCESS_LOCAL_WRITE)), EFAULT);
  EXPECT_NE(Mr((ibv_reg_mr)(a.pd.get(), read_only, 4096, IBV_ACCESS_REMOTE_READ)), nullptr);
  ::munmap(read_only, 4096);
}

/// The kernel counts pages from that of the address to that of the end.
TEST(RegisterMemory, AnEmptyRegionNeedsAnUnalignedAddress) {
  Pair pair;
  unsigned char* const page = pair.b.buffer.data() + 4096 - pair.b.address().buffer % 4096;
  expect_refused(Mr((ibv_reg_mr)(pair.b.pd.get(), page, 0, 0)), EINVAL);
  const Mr empty((ibv_reg_mr)(pair.b.pd.get(), page + 1, 0, kAllAccess));
  ASSERT_NE(empty, nullptr) << std::strerror(errno);
  Address target = pair.b.address();
  target.buffer = reinterpret_cast<std::uint64_t>(page + 1);
  target.rkey = empty->rkey;
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 1, target), 0);
  expect_completion(pair.a, 1, IBV_WC_REM_ACCESS_ERR);
}

TEST(RegisterMemory, MayHaveAnotherAddressOnTheWire) {
  Pair pair;
  // The offset in the page is kept.
  const std::uint64_t iova = 0x5000 + pair.b.address().buffer % 4096;
  const Mr mr(ibv_reg_mr_iova(pair.b.pd.get(), pair.b.buffer.data(), 4096, iova, kAllAccess));
  ASSERT_NE(mr, nullptr);
  expect_refused(Mr(ibv_reg_mr_iova(pair.b.pd.get(), pair.b.buffer.data(), 4096, iova ^ 8U, 0)),
                 EINVAL);
  pair.a.buffer[0] = 0x77;
  Address target = pair.b.address();
  target.buffer = iova;
  target.rkey = mr->rkey;
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 1, target, 10), 0);
  expect_completion(pair.a, 1);
  EXPECT_EQ(pair.b.buffer[10], 0x77);
}

TEST(RegisterDmabuf, RefusesTheSameAsTheKernel) {
  Endpoint a;
  const Fd memfd = make_memfd(16384);
  expect_refused(register_dmabuf(a, 0, 4096, 0, -1), EBADF);
  expect_refused(register_dmabuf(a, 0, 0, 0, memfd.get()), EINVAL);
  EXPECT_NE(register_dmabuf(a, 64, 0, 64, memfd.get()), nullptr)
      << "the range lies in a page of the file";
  expect_refused(register_dmabuf(a, 0, 16385, 0, memfd.get()), EINVAL);
  expect_refused(register_dmabuf(a, 8192, 8193, 0, memfd.get()), EINVAL);
  expect_refused(register_dmabuf(a, ~0ULL - 4095, 8192, 0, memfd.get()), EINVAL);
  expect_refused(register_dmabuf(a, 0, 4096, 100, memfd.get()), EINVAL);
  expect_refused(register_dmabuf(a, 100, 4096, 0, memfd.get()), EINVAL);
  expect_refused(register_dmabuf(a, 0, 4096, 0, memfd.get(), IBV_ACCESS_REMOTE_WRITE), EINVAL);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Fd reader(ends[0]);
  const Fd writer(ends[1]);
  expect_refused(register_dmabuf(a, 0, 4096, 0, reader.get()), EINVAL);
  const Fd no_export(::open(path_of(memfd).c_str(), O_PATH | O_CLOEXEC));
  expect_refused(register_dmabuf(a, 0, 4096, 0, no_export.get()), EINVAL);
  const Fd read_only(::open(path_of(memfd).c_str(), O_RDONLY | O_CLOEXEC));
  expect_refused(register_dmabuf(a, 0, 4096, 0, read_only.get()), EACCES);
  EXPECT_NE(register_dmabuf(a, 0, 4096, 0, read_only.get(), IBV_ACCESS_REMOTE_READ), nullptr);
  EXPECT_EQ(live_objects("mr"), 1U) << "only the endpoint's MR";
}

TEST(RegisterDmabuf, AMemfdTakesWritesAndReads) {
  Pair pair;
  Fd memfd = make_memfd(1 << 20);
  const Mr mr = register_dmabuf(pair.b, 4096 + 16, 8192, kIova + 16, memfd.get());
  ASSERT_NE(mr, nullptr) << std::strerror(errno);
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(mr->addr), 4096U + 16) << "the offset, not an address";
  std::memcpy(pair.a.buffer.data(), "hello", 6);
  Address target = pair.b.address();
  target.buffer = kIova + 16;
  target.rkey = mr->rkey;
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 6, target, 100), 0);
  expect_completion(pair.a, 1);
  char there[6] = {};
  ASSERT_EQ(::pread(memfd.get(), there, 6, 4096 + 16 + 100), 6);
  EXPECT_STREQ(there, "hello");
  memfd.reset();  // the MR keeps the memory
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_READ, 2, 200, 6, target, 100), 0);
  expect_completion(pair.a, 2);
  EXPECT_STREQ(reinterpret_cast<const char*>(pair.a.buffer.data()) + 200, "hello");
}

TEST(RegisterDmabuf, AnExportDescriptorReachesTheCardsMemory) {
  Pair pair;
  const Fd card = make_memfd(1 << 20);
  Fd dmabuf = make_export(card, 65536, 16384);
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, dmabuf.get(), 0), MAP_FAILED);
  expect_refused(register_dmabuf(pair.b, 0, 16385, kIova, dmabuf.get()), EINVAL);
  const Mr mr = register_dmabuf(pair.b, 4096, 8192, kIova + 4096, dmabuf.get());
  ASSERT_NE(mr, nullptr) << std::strerror(errno);
  dmabuf.reset();
  std::memcpy(pair.a.buffer.data(), "hello", 6);
  Address target = pair.b.address();
  target.buffer = kIova + 4096;
  target.rkey = mr->rkey;
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 6, target), 0);
  expect_completion(pair.a, 1);
  char there[6] = {};
  ASSERT_EQ(::pread(card.get(), there, 6, 65536 + 4096), 6);
  EXPECT_STREQ(there, "hello");
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 2, 0, 6, target, 8192 - 5), 0);
  expect_completion(pair.a, 2, IBV_WC_REM_ACCESS_ERR);
}

/// A dma-buf of two ranges of `backing`: 8192 bytes at 65536, then 4096 bytes at 4096.
Fd make_export_of_two(const Fd& backing) {
  const std::array segments{emulation::ExportSegment{65536, 8192},
                            emulation::ExportSegment{4096, 4096}};
  const std::string path =
      "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(backing.get());
  emulation::PublishedExport made;
  EXPECT_EQ(emulation::publish_export({"nic-test", path, "", segments}, made), 0);
  return Fd(made.reference.release());
}

TEST(RegisterDmabuf, FollowsTheSegmentsOfAnExport) {
  Pair pair;
  const Fd card = make_memfd(1 << 20);
  Fd dmabuf = make_export_of_two(card);
  expect_refused(register_dmabuf(pair.b, 0, 12289, kIova, dmabuf.get()), EINVAL);
  // Descriptors that a process opens for its first request stay open.
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 0, 0, 4, pair.b.address()), 0);
  expect_completion(pair.a, 0);
  const int before = open_descriptors();
  Mr mr = register_dmabuf(pair.b, 4096, 8192, kIova, dmabuf.get());
  ASSERT_NE(mr, nullptr) << std::strerror(errno);
  for (unsigned char i = 0; i < 4; ++i) pair.a.buffer[i] = static_cast<unsigned char>(i + 1);
  Address target = pair.b.address();
  target.buffer = kIova;
  target.rkey = mr->rkey;
  // Crosses the boundary of the ranges, which adjoin only in the dma-buf.
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 4, target, 4094), 0);
  expect_completion(pair.a, 1);
  std::vector<unsigned char> all(1 << 20);
  ASSERT_EQ(::pread(card.get(), all.data(), all.size(), 0), static_cast<ssize_t>(all.size()));
  std::vector<unsigned char> expected(1 << 20);
  expected[65536 + 8190] = 1;
  expected[65536 + 8191] = 2;
  expected[4096] = 3;
  expected[4097] = 4;
  EXPECT_EQ(all, expected);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_READ, 2, 200, 4, target, 4094), 0);
  expect_completion(pair.a, 2);
  EXPECT_EQ(std::memcmp(pair.a.buffer.data() + 200, pair.a.buffer.data(), 4), 0);
  mr.reset();
  EXPECT_EQ(open_descriptors(), before);
}

/// The dma-buf has a table of ranges that its file does not have or that cannot be used.
TEST(RegisterDmabuf, RefusesSegmentsThatAreNotThere) {
  Endpoint a;
  const Fd card = make_memfd(1 << 20);
  const std::string path =
      "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(card.get());
  const auto refused = [&](std::vector<emulation::ExportSegment> segments) {
    emulation::PublishedExport made;
    ASSERT_EQ(emulation::publish_export({"nic-test", path, "", segments}, made), 0);
    expect_refused(register_dmabuf(a, 0, 4096, kIova, made.reference.get()), EINVAL);
  };
  refused({{0, 4096}, {1 << 20, 4096}});           // begins at the end of the file
  refused({{0, 4096}, {(1 << 20) - 4096, 8192}});  // ends behind the file
  refused({{0, 4096}, {100, 4096}});               // begins within a page
  refused({{0, 4096}, {8192, 0}, {0, 4096}});      // is empty
}

TEST(RegisterDmabuf, WorksAsLocalMemoryToo) {
  Pair pair;
  const Fd memfd = make_memfd(65536);
  ASSERT_EQ(::pwrite(memfd.get(), "hbm", 4, 10), 4);
  const Mr mr = register_dmabuf(pair.a, 0, 65536, kIova, memfd.get());
  ASSERT_NE(mr, nullptr);
  ibv_send_wr request{};
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma.remote_addr = pair.b.address().buffer;
  request.wr.rdma.rkey = pair.b.mr->rkey;
  ASSERT_EQ(pair.a.post(request, {{kIova + 10, 4, mr->lkey}}), 0);
  expect_completion(pair.a, 0);
  EXPECT_STREQ(reinterpret_cast<const char*>(pair.b.buffer.data()), "hbm");
}

TEST(RegisterDmabuf, HoldsAReferenceUntilDeregistered) {
  Endpoint a;
  const Fd card = make_memfd(65536);
  const int before = open_descriptors();
  Fd dmabuf = make_export(card, 0, 4096);
  Mr mr = register_dmabuf(a, 0, 4096, kIova, dmabuf.get());
  ASSERT_NE(mr, nullptr);
  dmabuf.reset();
  EXPECT_EQ(open_descriptors(), before + 2) << "the dma-buf and its backing file";
  mr.reset();
  EXPECT_EQ(open_descriptors(), before);
}

/// Memory may be freed after ibv_dereg_mr: no write arrives any more.
TEST(DeregisterMemory, WaitsForInboundWrites) {
  Pair pair({.bytes = 32 << 20}, {.bytes = 32 << 20});
  std::atomic<bool> stop{false};
  const Address target = pair.b.address();
  pair.a.buffer.assign(pair.a.buffer.size(), 1);
  std::thread writer([&] {
    for (std::uint64_t id = 0; !stop; ++id) {
      if (pair.a.rdma(IBV_WR_RDMA_WRITE, id, 0, 32 << 20, target) != 0) return;
      const auto completion = pair.a.wait();
      if (!completion || completion->status != IBV_WC_SUCCESS) return;
    }
  });
  usleep(20000);
  ASSERT_EQ(ibv_dereg_mr(pair.b.mr.release()), 0);
  std::fill(pair.b.buffer.begin(), pair.b.buffer.end(), 2);
  usleep(20000);
  for (const unsigned char byte : pair.b.buffer) ASSERT_EQ(byte, 2);
  stop = true;
  writer.join();
  EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
}

}  // namespace
}  // namespace hbmwire::test

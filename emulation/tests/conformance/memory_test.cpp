// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <vector>

#include "emulation/tests/conformance/link.hpp"

/// Memory regions: the memory that may be registered, and that only registered memory is reached.
namespace hbmwire::conformance {
namespace {

constexpr const char* kAccessSource =
    "man ibv_reg_mr: access flags; IBTA vol. 1, chapter 10, Memory Regions, access control; "
    "chapter "
    "9, responder checks of R_Key, bounds and access";

struct FlagsRow {
  const char* name;
  int access;
  int error;  // 0: registered
};

class RegionFlags : public ConformanceOf<FlagsRow> {};

TEST_P(RegionFlags, AreTakenOrRefused) {
  source(
      "man ibv_reg_mr: remote write and remote atomic need local write; Linux "
      "include/rdma/ib_verbs.h, ib_check_mr_access: EINVAL");
  const FlagsRow& row = GetParam();
  if ((row.access & IBV_ACCESS_REMOTE_ATOMIC) != 0) HBMWIRE_NEED(nic.lacks_atomics());
  if ((row.access & IBV_ACCESS_MW_BIND) != 0) HBMWIRE_NEED(nic.lacks_windows(IBV_MW_TYPE_1));
  std::array<unsigned char, 256> memory{};
  const Mr mr((ibv_reg_mr)(nic.pd(), memory.data(), memory.size(), row.access));
  const int error = mr ? 0 : errno;
  EXPECT_EQ(error, row.error) << errno_name(error);
}

INSTANTIATE_TEST_SUITE_P(
    All, RegionFlags,
    testing::Values(
        FlagsRow{"None", 0, 0}, FlagsRow{"LocalWrite", IBV_ACCESS_LOCAL_WRITE, 0},
        FlagsRow{"RemoteRead", IBV_ACCESS_REMOTE_READ, 0},
        FlagsRow{"RemoteWriteAlone", IBV_ACCESS_REMOTE_WRITE, EINVAL},
        FlagsRow{"RemoteAtomicAlone", IBV_ACCESS_REMOTE_ATOMIC, EINVAL},
        FlagsRow{"RemoteWriteAndRead", IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, EINVAL},
        FlagsRow{"LocalAndRemoteWrite", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 0},
        FlagsRow{"LocalWriteAndAtomic", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC, 0},
        FlagsRow{"WindowBind", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND, 0},
        FlagsRow{"Everything", kAllAccess, 0},
        FlagsRow{"RelaxedOrdering", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING, 0}),
    [](const auto& row) { return std::string(row.param.name); });

class Regions : public Conformance {
 protected:
  /// Expects the registration of missing memory to fail with EFAULT, ENOMEM or EINVAL.
  void expect_no_region(void* address, std::size_t length, int access) {
    const Mr mr((ibv_reg_mr)(nic.pd(), address, length, access));
    EXPECT_FALSE(mr);
    if (mr) return;
    EXPECT_TRUE(errno == EFAULT || errno == ENOMEM || errno == EINVAL) << errno_name(errno);
  }
};

TEST_F(Regions, UnmappedMemoryIsRefused) {
  source("man ibv_reg_mr; Linux drivers/infiniband/core/umem.c: pinning fails with EFAULT");
  void* hole = ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(hole, MAP_FAILED);
  ::munmap(hole, 8192);
  expect_no_region(hole, 8192, IBV_ACCESS_LOCAL_WRITE);
}

TEST_F(Regions, AMappingThatEndsTooSoonIsRefused) {
  source("man ibv_reg_mr; Linux drivers/infiniband/core/umem.c: every page is pinned, or none");
  void* area = ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(area, MAP_FAILED);
  ::munmap(static_cast<char*>(area) + 4096, 4096);
  expect_no_region(area, 8192, IBV_ACCESS_LOCAL_WRITE);
  const Mr half = nic.make_mr(nic.pd(), area, 4096, IBV_ACCESS_LOCAL_WRITE);
  ::munmap(area, 4096);
}

TEST_F(Regions, ReadOnlyMemoryIsRefusedForWriting) {
  source("Linux drivers/infiniband/core/umem.c: FOLL_WRITE when the region may be written");
  void* area = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(area, MAP_FAILED);
  expect_no_region(area, 4096, IBV_ACCESS_LOCAL_WRITE);
  const Mr readable = nic.make_mr(nic.pd(), area, 4096, 0);
  ::munmap(area, 4096);
}

TEST_F(Regions, LengthThatWrapsAroundIsRefused) {
  source("Linux drivers/infiniband/core/umem.c: address + length overflows, EINVAL");
  std::array<unsigned char, 64> memory{};
  expect_no_region(memory.data(), ~std::size_t{0} - 16, IBV_ACCESS_LOCAL_WRITE);
}

TEST_F(Regions, AlignedEmptyRegionsAreRefused) {
  source("Linux drivers/infiniband/core/umem.c, ib_umem_get: no page to pin, EINVAL");
  void* area = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(area, MAP_FAILED);
  expect_no_region(area, 0, IBV_ACCESS_LOCAL_WRITE);
  ::munmap(area, 4096);
}

TEST_F(Regions, UnalignedEmptyRegionsAllowNoAccess) {
  source("Linux drivers/infiniband/core/umem.c, ib_umem_num_pages: one page is pinned");
  Link link(nic, Transport::rc);
  unsigned char* const address = link.b.buffer.data() + 1;  // not aligned, as allocations are
  const Mr empty((ibv_reg_mr)(nic.pd(), address, 0, kAllAccess));
  ASSERT_TRUE(empty) << errno_name(errno);
  ibv_send_wr write = link.request(IBV_WR_RDMA_WRITE, 1, 1);
  write.wr.rdma.rkey = empty->rkey;
  ASSERT_EQ(link.a.post(write, 0, 1), 0);
  link.a.expect_sent(1, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Regions, IovaMustHaveTheOffsetOfTheAddressInItsPage) {
  source("Linux drivers/infiniband/core/uverbs_cmd.c, ib_uverbs_reg_mr: EINVAL");
  std::array<unsigned char, 8192> memory{};
  const auto address = reinterpret_cast<std::uint64_t>(memory.data());
  const Mr right((ibv_reg_mr_iova)(nic.pd(), memory.data(), 4096, 0x10000000 + address % 4096,
                                   IBV_ACCESS_LOCAL_WRITE));
  EXPECT_TRUE(right) << errno_name(errno);
  const Mr wrong((ibv_reg_mr_iova)(nic.pd(), memory.data(), 4096, 0x10000000 + (address + 8) % 4096,
                                   IBV_ACCESS_LOCAL_WRITE));
  EXPECT_FALSE(wrong);
  if (!wrong) {
    EXPECT_EQ(errno, EINVAL) << errno_name(errno);
  }
}

TEST_F(Regions, MayOverlap) {
  source("IBTA vol. 1, chapter 10, Memory Regions: regions may overlap; each has its own access");
  Link link(nic, Transport::rc);
  const Mr readable = nic.make_mr(nic.pd(), link.b.buffer.data(), 4096, IBV_ACCESS_REMOTE_READ);
  ibv_send_wr read = link.request(IBV_WR_RDMA_READ, 1);
  read.wr.rdma.rkey = readable->rkey;
  ASSERT_EQ(link.a.post(read, 0, 100), 0);
  link.a.expect_sent(1);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_RDMA_WRITE, 2), 0, 100), 0);
  link.a.expect_sent(2);
}

TEST_F(Regions, IovaIsTheAddressThatKeysAreUsedWith) {
  source("man ibv_reg_mr: ibv_reg_mr_iova, offset = addr + (iova - hca_va)");
  Link link(nic, Transport::rc);
  constexpr std::uint64_t kIova = 0x123456789000;
  // The offset in the page must be that of the buffer's address.
  const std::uint64_t iova = kIova + (reinterpret_cast<std::uint64_t>(link.b.buffer.data()) & 4095);
  const Mr mr((ibv_reg_mr_iova)(nic.pd(), link.b.buffer.data(), 4096, iova, kAllAccess));
  ASSERT_TRUE(mr) << errno_name(errno);
  link.a.fill(0, 100, 2);
  ibv_send_wr write = link.request(IBV_WR_RDMA_WRITE, 1);
  write.wr.rdma.rkey = mr->rkey;
  write.wr.rdma.remote_addr = iova + 50;
  ASSERT_EQ(link.a.post(write, 0, 100), 0);
  link.a.expect_sent(1);
  link.b.expect_filled(50, 100, 2);
  // The iova is the address of local elements too.
  ASSERT_EQ(link.a.receive(3, 4000, 100), 0);
  ASSERT_EQ(
      link.b.post(link.b.request(IBV_WR_SEND, 4, link.a.address()), {{iova + 50, 100, mr->lkey}}),
      0);
  link.b.expect_sent(4);
  link.a.expect_received(3);
  link.a.expect_filled(4000, 100, 2);
}

TEST_F(Regions, ZeroBasedRegionsBeginAtZero) {
  source("man ibv_reg_mr: IBV_ACCESS_ZERO_BASED, byte offset from the beginning of the MR");
  Link link(nic, Transport::rc);
  // The region begins at a page, because the kernel requires that the address and the iova, which
  // is 0, have the same offset in their pages.
  const auto begin = reinterpret_cast<std::uintptr_t>(link.b.buffer.data());
  const std::size_t to_page = (4096 - begin % 4096) % 4096;
  const Mr mr((ibv_reg_mr_iova)(nic.pd(), link.b.buffer.data() + to_page, 4096, 0, kAllAccess));
  if (!mr && (errno == EOPNOTSUPP || errno == EINVAL))
    GTEST_SKIP() << "the device has no regions that begin at zero";
  ASSERT_TRUE(mr) << errno_name(errno);
  link.a.fill(0, 10, 2);
  ibv_send_wr write = link.request(IBV_WR_RDMA_WRITE, 1);
  write.wr.rdma.rkey = mr->rkey;
  write.wr.rdma.remote_addr = 5;
  ASSERT_EQ(link.a.post(write, 0, 10), 0);
  link.a.expect_sent(1);
  link.b.expect_filled(to_page + 5, 10, 2);
  write.wr.rdma.remote_addr = 4096;
  ASSERT_EQ(link.a.post(write, 0, 1), 0);
  link.a.expect_sent(1, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Regions, MayBeSentWithoutLocalWrite) {
  source("man ibv_reg_mr: local read access is always enabled");
  Link link(nic, Transport::rc, {.a = {.mr_access = 0}});
  ASSERT_EQ(link.receive(2, 0, 64), 0);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), 0, 64), 0);
  link.a.expect_sent(1);
  link.b.expect_received(2);
}

TEST_F(Regions, KeysOfDeregisteredRegionsAreInvalid) {
  source("man ibv_dereg_mr; IBTA vol. 1, chapter 10: keys of a destroyed region are invalid");
  Link link(nic, Transport::rc);
  Mr mr = nic.make_mr(nic.pd(), link.b.buffer.data(), 4096, kAllAccess);
  ibv_send_wr write = link.request(IBV_WR_RDMA_WRITE, 1);
  write.wr.rdma.rkey = mr->rkey;
  ASSERT_EQ(link.a.post(write, 0, 8), 0);
  link.a.expect_sent(1);
  mr.reset();
  const Mr next = nic.make_mr(nic.pd(), link.b.buffer.data(), 4096, kAllAccess);
  EXPECT_NE(next->rkey, write.wr.rdma.rkey) << "a key does not come back at once";
  write.wr_id = 2;
  ASSERT_EQ(link.a.post(write, 0, 8), 0);
  link.a.expect_sent(2, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Regions, FilesThatAreNoDmabufsAreRefused) {
  source(
      "man ibv_reg_mr: ibv_reg_dmabuf_mr; Linux drivers/dma-buf/dma-buf.c, dma_buf_get: EBADF, "
      "EINVAL");
  const auto refused = [&](int fd) {
    const Mr mr(ibv_reg_dmabuf_mr(nic.pd(), 0, 4096, 0, fd, IBV_ACCESS_LOCAL_WRITE));
    return mr ? 0 : errno;
  };
  const int bad = refused(-1);
  if (bad == EOPNOTSUPP || bad == EPROTONOSUPPORT) GTEST_SKIP() << "the device imports no dma-bufs";
  EXPECT_TRUE(bad == EBADF || bad == EINVAL) << errno_name(bad);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ASSERT_GE(null, 0);
  EXPECT_EQ(refused(null), EINVAL) << "a character device";
  ::close(null);
  int pipe[2];
  ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  EXPECT_EQ(refused(pipe[0]), EINVAL) << "a pipe";
  ::close(pipe[0]);
  ::close(pipe[1]);
}

struct BoundsRow {
  const char* name;
  std::int64_t offset;  // from the region's first byte
  std::uint32_t length;
  bool inside;
};

/// The length of the region, and its distance from the beginning of the buffer.
constexpr std::int64_t kRegion = 4096;

/// A region that begins and ends within other registered memory, so that only the check of its
/// bounds can stop an access.
class RegionBounds : public ConformanceOf<BoundsRow> {
 protected:
  void run(ibv_wr_opcode opcode, int access) {
    source(kAccessSource);
    const BoundsRow& row = GetParam();
    Link link(nic, Transport::rc);
    const Mr mr = nic.make_mr(nic.pd(), link.b.buffer.data() + kRegion, kRegion, access);
    ibv_send_wr request = link.request(opcode, 1);
    request.wr.rdma.rkey = mr->rkey;
    request.wr.rdma.remote_addr += static_cast<std::uint64_t>(kRegion + row.offset);
    ASSERT_EQ(link.a.post(request, 0, row.length), 0);
    link.a.expect_sent(1, row.inside ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(link.a.state(), row.inside ? IBV_QPS_RTS : IBV_QPS_ERR);
  }
};

TEST_P(RegionBounds, LimitAWrite) {
  run(IBV_WR_RDMA_WRITE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}

TEST_P(RegionBounds, LimitARead) { run(IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ); }

TEST_P(RegionBounds, LimitALocalElement) {
  source(kAccessSource);
  const BoundsRow& row = GetParam();
  Link link(nic, Transport::rc);
  const Mr mr = nic.make_mr(nic.pd(), link.a.buffer.data() + kRegion, kRegion, 0);
  ASSERT_EQ(link.receive(2, 0, 8192), 0);
  ibv_sge element = link.a.element(static_cast<std::size_t>(kRegion + row.offset), row.length);
  element.lkey = mr->lkey;
  ASSERT_EQ(link.a.post(link.request(IBV_WR_SEND, 1), {element}), 0);
  link.a.expect_sent(1, row.inside ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR);
}

INSTANTIATE_TEST_SUITE_P(All, RegionBounds,
                         testing::Values(BoundsRow{"FirstByte", 0, 1, true},
                                         BoundsRow{"LastByte", kRegion - 1, 1, true},
                                         BoundsRow{"Whole", 0, kRegion, true},
                                         BoundsRow{"OneBefore", -1, 1, false},
                                         BoundsRow{"OneAfter", kRegion, 1, false},
                                         BoundsRow{"OneTooMany", 0, kRegion + 1, false},
                                         BoundsRow{"AcrossTheEnd", kRegion - 1, 2, false}),
                         [](const auto& row) { return std::string(row.param.name); });

struct AccessRow {
  const char* name;
  ibv_wr_opcode opcode;
  int access;
  bool allowed;
};

class RegionAccess : public ConformanceOf<AccessRow> {};

TEST_P(RegionAccess, LimitsAPeer) {
  source(kAccessSource);
  const AccessRow& row = GetParam();
  const bool atomic = row.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  if (atomic) HBMWIRE_NEED(nic.lacks_atomics());
  Link link(nic, Transport::rc, {.b = {.mr_access = row.access}});
  ASSERT_EQ(link.b.receive(2, std::vector<ibv_sge>{}), 0);  // for a WRITE with immediate
  ASSERT_EQ(link.a.post(link.request(row.opcode, 1), 0, 8), 0);
  link.a.expect_sent(1, row.allowed ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(link.b.state(), row.allowed ? IBV_QPS_RTS : IBV_QPS_ERR);
}

INSTANTIATE_TEST_SUITE_P(
    All, RegionAccess,
    testing::Values(
        AccessRow{"WriteWithRemoteWrite", IBV_WR_RDMA_WRITE,
                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, true},
        AccessRow{"WriteWithout", IBV_WR_RDMA_WRITE,
                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
                  false},
        AccessRow{"WriteImmediateWithout", IBV_WR_RDMA_WRITE_WITH_IMM, IBV_ACCESS_LOCAL_WRITE,
                  false},
        AccessRow{"ReadWithRemoteRead", IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ, true},
        AccessRow{"ReadWithout", IBV_WR_RDMA_READ,
                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
                  false},
        AccessRow{"AtomicWithRemoteAtomic", IBV_WR_ATOMIC_FETCH_AND_ADD,
                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC, true},
        AccessRow{"AtomicWithout", IBV_WR_ATOMIC_FETCH_AND_ADD,
                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
                  false}),
    [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace hbmwire::conformance

// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

#include "emulation/gaudi/abi/hl_thunk.h"
#include "emulation/gaudi/testing_hooks.hpp"
#include "gaudi_test_world.hpp"

namespace hbmwire::test {
namespace {

constexpr std::uint64_t kHbm = 127 * kPage2;  // 97,536 MiB: the driver keeps the first page

class GaudiMemory : public GaudiTest {
 protected:
  void SetUp() override {
    GaudiTest::SetUp();
    card_ = std::make_unique<OpenCard>(open_first_card());
    ASSERT_GE(fd(), 0);
  }

  void TearDown() override {
    card_.reset();
    GaudiTest::TearDown();
  }

  [[nodiscard]] int fd() const { return card_->fd(); }

  [[nodiscard]] std::uint64_t free_bytes() const {
    hlthunk_dram_usage_info usage{};
    EXPECT_EQ(hlthunk_get_dram_usage(fd(), &usage), 0);
    EXPECT_EQ(usage.dram_free_mem + usage.ctx_dram_mem, kHbm);
    return usage.dram_free_mem;
  }

  std::unique_ptr<OpenCard> card_;
};

TEST_F(GaudiMemory, MappingsBeginAtTheFirstAddressOfAGaudi2) {
  const MappedMemory first(fd(), 4096);
  const MappedMemory second(fd(), kPage2 + 1);
  EXPECT_EQ(first.address(), kFirstAddress2);
  EXPECT_EQ(second.address(), first.address() + kPage2);
  EXPECT_EQ(first.handle(), 1U);
  EXPECT_EQ(second.handle(), 2U);
}

TEST_F(GaudiMemory, AllocationsRoundUpToPagesOf768MiB) {
  const MappedMemory one(fd(), 1);
  EXPECT_EQ(free_bytes(), kHbm - kPage2);
  const MappedMemory two(fd(), kPage2 + 1);
  EXPECT_EQ(free_bytes(), kHbm - 3 * kPage2);
}

TEST_F(GaudiMemory, ACardReportsItsGeometry) {
  hlthunk_hw_ip_info info{};
  ASSERT_EQ(hlthunk_get_hw_ip_info(fd(), &info), 0);
  EXPECT_EQ(info.dram_size, kHbm);
  EXPECT_EQ(info.reserved_dram_size, kPage2);
  EXPECT_EQ(info.dram_base_address, kFirstAddress2);
  EXPECT_EQ(info.dram_page_size, kPage2);
  EXPECT_EQ(info.device_mem_alloc_default_page_size, kPage2);
  EXPECT_EQ(info.dram_enabled, 1);
  std::uint64_t orders = 1;
  EXPECT_EQ(hlthunk_get_dev_memalloc_page_orders(fd(), &orders), 0);
  EXPECT_EQ(orders, 0U) << "one page size only";
  EXPECT_EQ(hlthunk_get_hw_ip_info(fd(), nullptr), -EINVAL);
}

// The last arguments of hlthunk_device_memory_alloc() are the page size (0: the default),
// `contiguous` and `shared`. Neither flag has an effect here.
TEST_F(GaudiMemory, WrongSizesAndHandlesAreRefused) {
  errno = 0;
  EXPECT_EQ(hlthunk_device_memory_alloc(fd(), 0, 0, false, false), 0U);
  EXPECT_EQ(errno, EINVAL);
  for (const std::uint64_t bytes : {kHbm + 1, UINT64_MAX}) {
    errno = 0;
    EXPECT_EQ(hlthunk_device_memory_alloc(fd(), bytes, 0, true, false), 0U);
    EXPECT_EQ(errno, ENOMEM) << bytes;
  }
  errno = 0;
  EXPECT_EQ(hlthunk_device_memory_map(fd(), 99, 0), 0U);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(hlthunk_device_memory_free(fd(), 99), -EINVAL);
  EXPECT_EQ(hlthunk_memory_unmap(fd(), kFirstAddress2), -EINVAL);
}

TEST_F(GaudiMemory, MappedMemoryCannotBeFreedNorUnmappedTwice) {
  const std::uint64_t handle = hlthunk_device_memory_alloc(fd(), kPage2, 0, false, false);
  const std::uint64_t address = hlthunk_device_memory_map(fd(), handle, 0);
  const std::uint64_t again = hlthunk_device_memory_map(fd(), handle, 0);
  EXPECT_NE(again, address) << "a handle may be mapped twice";
  EXPECT_EQ(hlthunk_device_memory_free(fd(), handle), -EINVAL);
  EXPECT_EQ(hlthunk_memory_unmap(fd(), address + 4096), -EINVAL) << "an interior address";
  EXPECT_EQ(hlthunk_memory_unmap(fd(), address), 0);
  EXPECT_EQ(hlthunk_memory_unmap(fd(), address), -EINVAL);
  EXPECT_EQ(hlthunk_device_memory_free(fd(), handle), -EINVAL) << "still mapped elsewhere";
  EXPECT_EQ(hlthunk_memory_unmap(fd(), again), 0);
  EXPECT_EQ(hlthunk_device_memory_free(fd(), handle), 0);
  EXPECT_EQ(hlthunk_device_memory_free(fd(), handle), -EINVAL);
}

TEST_F(GaudiMemory, MemoryRunsOutAfter127Pages) {
  std::vector<std::uint64_t> handles;
  for (;;) {
    const std::uint64_t handle = hlthunk_device_memory_alloc(fd(), 1, 0, false, false);
    if (handle == 0) break;
    handles.push_back(handle);
  }
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(handles.size(), 127U);
  EXPECT_EQ(free_bytes(), 0U);
  EXPECT_EQ(hlthunk_device_memory_free(fd(), handles[5]), 0);
  EXPECT_EQ(hlthunk_device_memory_alloc(fd(), 1, 0, false, false), handles[5])
      << "the smallest free handle";
}

TEST_F(GaudiMemory, AHintThatIsAlignedAndFreeIsFollowed) {
  const std::uint64_t handle = hlthunk_device_memory_alloc(fd(), kPage2, 0, false, false);
  const std::uint64_t wanted = kFirstAddress2 + 10 * kPage2;
  EXPECT_EQ(hlthunk_device_memory_map(fd(), handle, wanted), wanted);
  EXPECT_EQ(hlthunk_device_memory_map(fd(), handle, wanted + 4096), kFirstAddress2)
      << "a hint that is not aligned is ignored";
  EXPECT_EQ(hlthunk_device_memory_map(fd(), handle, wanted), kFirstAddress2 + kPage2)
      << "a hint that is taken is ignored";
}

TEST_F(GaudiMemory, HostMemoryIsMappedIntoARangeOfItsOwn) {
  alignas(4096) std::array<char, 8192> buffer{};
  const std::uint64_t address = hlthunk_host_memory_map(fd(), buffer.data() + 100, 0, 5000);
  EXPECT_GE(address, 0xFFF0000000000000U);  // where a Gaudi2's addresses of host memory begin
  EXPECT_EQ(address % 4096, 100U);
  EXPECT_EQ(hbmwire_gaudi_live_objects(0, "host_mapping"), 1U);
  EXPECT_EQ(export_range(fd(), address - 100, 4096), -EINVAL) << "host memory is not exported";
  EXPECT_EQ(hlthunk_memory_unmap(fd(), address), 0);
}

TEST_F(GaudiMemory, MissingHostMemoryIsRefused) {
  void* hole = ::mmap(nullptr, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ::munmap(hole, 8192);
  errno = 0;
  EXPECT_EQ(hlthunk_host_memory_map(fd(), hole, 0, 8192), 0U);
  EXPECT_EQ(errno, EFAULT);
  int value = 0;
  errno = 0;
  EXPECT_EQ(hlthunk_host_memory_map(fd(), &value, 0, 0), 0U);
  EXPECT_EQ(errno, EINVAL);
  errno = 0;
  EXPECT_EQ(hlthunk_host_memory_map(fd(), &value, 0, UINT64_MAX), 0U);
  EXPECT_EQ(errno, EINVAL);
  errno = 0;
  EXPECT_EQ(hlthunk_host_memory_map_flags(fd(), &value, 0, 4, HL_MEM_ODP), 0U);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(GaudiMemory, TheCpuFaultsOnADeviceAddress) {
  const MappedMemory memory(fd(), 4096);
  EXPECT_EQ(run_in_child([&] {
              std::signal(SIGSEGV, SIG_DFL);  // a sanitizer would handle it
              return *std::bit_cast<volatile unsigned char*>(memory.address());
            }),
            128 + SIGSEGV);
}

TEST_F(GaudiMemory, AForkedChildSharesTheCard) {
  EXPECT_EQ(
      run_in_child([&] {
        const std::uint64_t handle = hlthunk_device_memory_alloc(fd(), 1, 0, false, false);
        return handle == 1 && hlthunk_device_memory_map(fd(), handle, 0) == kFirstAddress2 ? 0 : 1;
      }),
      0);
  EXPECT_EQ(free_bytes(), kHbm - kPage2);
  EXPECT_EQ(hlthunk_memory_unmap(fd(), kFirstAddress2), 0);
  EXPECT_EQ(hlthunk_device_memory_free(fd(), 1), 0);
}

TEST_F(GaudiMemory, ACardSentToAnotherProcessIsTheSameCard) {
  std::array<int, 2> sockets{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()), 0);
  const Fd mine(sockets[0]);
  const Fd theirs(sockets[1]);
  send_fd(mine.get(), fd());
  const Fd received(receive_fd(theirs.get()));
  EXPECT_NE(received.get(), fd());
  EXPECT_EQ(hlthunk_device_memory_alloc(received.get(), 1, 0, false, false), 1U);
  EXPECT_EQ(hlthunk_device_memory_free(fd(), 1), 0);
}

TEST_F(GaudiMemory, ClosingTheCardFreesEverything) {
  EXPECT_NE(
      hlthunk_device_memory_map(fd(), hlthunk_device_memory_alloc(fd(), 1, 0, false, false), 0),
      0U);
  card_->close();
  EXPECT_EQ(hbmwire_gaudi_live_objects(0, "allocation"), 0U);
  EXPECT_EQ(hbmwire_gaudi_live_objects(0, "mapping"), 0U);
}

TEST_F(GaudiMemory, FreedMemoryIsGivenBackToTheMachine) {
  constexpr std::size_t kTouched = std::size_t{8} << 20;

  struct stat file {};

  std::string path;
  {
    const MappedMemory memory(fd(), kPage2);
    const Fd dmabuf(export_range(fd(), memory.address(), kPage2));
    const ImportedMemory imported(dmabuf.get());
    ASSERT_NE(imported.data(), nullptr);
    std::memset(imported.data(), 1, kTouched);
    path = imported.path();
    ASSERT_EQ(::stat(path.c_str(), &file), 0);
    EXPECT_GE(static_cast<std::size_t>(file.st_blocks) * 512, kTouched);
  }
  ASSERT_EQ(::stat(path.c_str(), &file), 0);
  EXPECT_LT(static_cast<std::size_t>(file.st_blocks) * 512, kTouched / 8);
}

}  // namespace
}  // namespace hbmwire::test

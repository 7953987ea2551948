// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "emulation/gaudi/abi/hl_thunk.h"
#include "emulation/gaudi/testing_hooks.hpp"
#include "gaudi_test_world.hpp"

namespace hbmwire::test {
namespace {

class GaudiExport : public GaudiTest {
 protected:
  void SetUp() override {
    GaudiTest::SetUp();
    card_ = std::make_unique<OpenCard>(open_first_card());
    memory_ = std::make_unique<MappedMemory>(fd(), kPage2);
  }

  void TearDown() override {
    memory_.reset();
    card_.reset();
    GaudiTest::TearDown();
  }

  [[nodiscard]] int fd() const { return card_->fd(); }

  [[nodiscard]] std::uint64_t base() const { return memory_->address(); }

  std::unique_ptr<OpenCard> card_;
  std::unique_ptr<MappedMemory> memory_;
};

TEST_F(GaudiExport, AnExportHasTheRequestedSize) {
  const Fd dmabuf(export_range(fd(), base(), 12288));
  ASSERT_GE(dmabuf.get(), 0);

  struct stat status {};

  ASSERT_EQ(::fstat(dmabuf.get(), &status), 0);
  EXPECT_EQ(status.st_size, 12288);
  EXPECT_EQ(::fcntl(dmabuf.get(), F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(hbmwire_gaudi_live_objects(0, "export"), 1U);
}

TEST_F(GaudiExport, FlagsOtherThanReadWriteAndCloseOnExecAreRefused) {
  for (const unsigned flags : {0U, static_cast<unsigned>(O_RDWR), static_cast<unsigned>(O_CLOEXEC),
                               static_cast<unsigned>(O_RDWR | O_CLOEXEC | O_NONBLOCK)}) {
    EXPECT_EQ(hlthunk_device_mapped_memory_export_dmabuf_fd(fd(), base(), 4096, 0, flags), -EINVAL)
        << flags;
    EXPECT_EQ(hlthunk_device_mapped_memory_export_dmabuf_fd(-1, base(), 4096, 0, flags), -EINVAL)
        << "refused before the fd is looked at";
  }
}

TEST_F(GaudiExport, ExportsConsistOfWholePages) {
  EXPECT_EQ(export_range(fd(), base(), 0), -EINVAL);
  EXPECT_EQ(export_range(fd(), base(), 4095), -EINVAL);
  EXPECT_EQ(export_range(fd(), base(), 4097), -EINVAL);
  EXPECT_EQ(export_range(fd(), base(), 4096, 1), -EINVAL);
  EXPECT_EQ(export_range(fd(), base(), 4096, 2048), -EINVAL);
  EXPECT_EQ(export_range(fd(), base() + 1, 4096), -EINVAL);
}

TEST_F(GaudiExport, TheAddressMustBeTheBaseOfAMapping) {
  EXPECT_EQ(export_range(fd(), base() + 4096, 4096), -EINVAL) << "within the mapping";
  EXPECT_EQ(export_range(fd(), base() + kPage2, 4096), -EINVAL) << "not mapped";
  EXPECT_EQ(export_range(fd(), 0, 4096), -EINVAL);
}

TEST_F(GaudiExport, AnExportMustLieWithinTheAllocation) {
  EXPECT_EQ(export_range(fd(), base(), kPage2 + 4096), -EINVAL);
  EXPECT_EQ(export_range(fd(), base(), 4096, kPage2), -EINVAL);
  EXPECT_EQ(export_range(fd(), base(), 4096, UINT64_MAX - 4095), -EINVAL);
  const Fd last(export_range(fd(), base(), 4096, kPage2 - 4096));
  EXPECT_GE(last.get(), 0);
}

TEST_F(GaudiExport, TheLastPageOfAnAllocationIsExportedWhole) {
  const MappedMemory one_byte(fd(), 1);
  const Fd dmabuf(export_range(fd(), one_byte.address(), kPage2));
  EXPECT_GE(dmabuf.get(), 0);
}

TEST_F(GaudiExport, TheOlderCallHasNoOffsetAndIgnoresItsFlags) {
  const Fd dmabuf(hlthunk_device_memory_export_dmabuf_fd(fd(), base(), 4096, 0));
  ASSERT_GE(dmabuf.get(), 0);
  EXPECT_EQ(hlthunk_device_memory_export_dmabuf_fd(fd(), base() + 4096, 4096, 0), -EINVAL);
}

TEST_F(GaudiExport, TheCpuCannotAccessTheMemory) {
  const Fd dmabuf(export_range(fd(), base(), 4096));
  char byte = 0;
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, dmabuf.get(), 0), MAP_FAILED);
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(::read(dmabuf.get(), &byte, 1), -1);
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(::write(dmabuf.get(), &byte, 1), -1);
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(::ftruncate(dmabuf.get(), 0), -1);
}

// The differences between an O_PATH descriptor and a real dma-buf that emulation/docs/gaudi.md
// lists.
TEST_F(GaudiExport, AnExportDiffersFromARealDmabufAsDocumented) {
  const Fd dmabuf(export_range(fd(), base(), 4096));
  ASSERT_GE(dmabuf.get(), 0);
  errno = 0;
  EXPECT_EQ(::lseek(dmabuf.get(), 0, SEEK_END), -1);
  EXPECT_EQ(errno, EBADF);
  pollfd waiting{dmabuf.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&waiting, 1, 0), 1);
  EXPECT_EQ(waiting.revents, POLLNVAL);
  EXPECT_NE(::fcntl(dmabuf.get(), F_GETFL) & O_PATH, 0);
  EXPECT_NE(::fcntl(dmabuf.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(GaudiExport, AnImporterFindsTheRange) {
  const MappedMemory second(fd(), kPage2);
  const Fd whole(export_range(fd(), second.address(), kPage2));
  const Fd part(export_range(fd(), second.address(), 8192, 1 << 20));
  const ImportedMemory all(whole.get());
  const ImportedMemory some(part.get());
  ASSERT_NE(all.data(), nullptr);
  ASSERT_NE(some.data(), nullptr);
  EXPECT_EQ(all.bytes(), kPage2);
  EXPECT_EQ(some.bytes(), 8192U);
  EXPECT_EQ(some.offset(), all.offset() + (1 << 20));
  EXPECT_EQ(some.path(), all.path());
  // Only the bytes of the part change in the whole.
  std::memset(some.data(), 0x5a, 8192);
  EXPECT_EQ(all.data()[(1 << 20) - 1], 0);
  EXPECT_EQ(all.data()[1 << 20], 0x5a);
  EXPECT_EQ(all.data()[(1 << 20) + 8191], 0x5a);
  EXPECT_EQ(all.data()[(1 << 20) + 8192], 0);
}

TEST_F(GaudiExport, AnExportCannotBeResized) {
  const Fd dmabuf(export_range(fd(), base(), 8192));
  const Fd reopened(
      ::open(("/proc/self/fd/" + std::to_string(dmabuf.get())).c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_GE(reopened.get(), 0);
  EXPECT_EQ(::ftruncate(reopened.get(), 4096), -1);
  EXPECT_EQ(::ftruncate(reopened.get(), 12288), -1);
  EXPECT_EQ(::fcntl(reopened.get(), F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

TEST_F(GaudiExport, ManyExportsComeAndGo) {
  for (int i = 0; i < 5000; ++i) {  // a card has slots for 4096 living exports
    const Fd dmabuf(export_range(fd(), base(), 4096));
    ASSERT_GE(dmabuf.get(), 0) << i;
  }
  EXPECT_EQ(hbmwire_gaudi_live_objects(0, "export"), 0U);
}

}  // namespace
}  // namespace hbmwire::test

// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>

#include "hbmwire/fd.hpp"

#include "gaudi_fixture.hpp"

// The virtual Gaudi's driver through its own calls, and libibverbs: its refusals, and the order in
// which objects may be destroyed. Runs in a guest: tests/kernel.
namespace hbmwire::test {
namespace {

namespace abi = memory::gaudi::abi;

constexpr std::uint64_t kHostPage = 4096;

class VirtualGaudi : public OnGaudi {
 protected:
  /// Device memory with its mapping.
  struct Mapped {
    std::uint64_t handle = 0;
    std::uint64_t address = 0;
  };

  Mapped map(std::uint64_t size) {
    Mapped memory;
    EXPECT_EQ(card_->allocate(size, memory.handle), 0);
    EXPECT_EQ(card_->map(memory.handle, memory.address), 0);
    return memory;
  }

  void TearDown() override {
    card_.reset();
    OnGaudi::TearDown();
  }

  std::unique_ptr<RawGaudi> card_ = std::make_unique<RawGaudi>();
};

/// A protection domain of rxe0's.
class Verbs {
 public:
  Verbs() {
    ibv_device** const devices = ::ibv_get_device_list(nullptr);
    if (devices != nullptr && devices[0] != nullptr) context_ = ::ibv_open_device(devices[0]);
    ::ibv_free_device_list(devices);
    if (context_ != nullptr) pd_ = ::ibv_alloc_pd(context_);
    EXPECT_NE(pd_, nullptr);
  }

  Verbs(const Verbs&) = delete;
  Verbs& operator=(const Verbs&) = delete;

  ~Verbs() {
    ::ibv_dealloc_pd(pd_);
    ::ibv_close_device(context_);
  }

  [[nodiscard]] ibv_mr* import(int dmabuf, std::uint64_t offset, std::size_t length,
                               std::uint64_t iova) const {
    return ::ibv_reg_dmabuf_mr(pd_, offset, length, iova, dmabuf, IBV_ACCESS_LOCAL_WRITE);
  }

 private:
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
};

TEST_F(VirtualGaudi, HasOneOwner) {
  ASSERT_EQ(card_->open_error(), 0);
  EXPECT_EQ(RawGaudi().open_error(), EBUSY);
  card_.reset();
  EXPECT_EQ(RawGaudi().open_error(), 0);
}

TEST_F(VirtualGaudi, TellsOfItselfByEitherNodeAndServesByOne) {
  const Fd control(::open("/dev/accel/accel_controlD0", O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(control);
  for (const int fd : {control.get(), card_->descriptor()}) {
    abi::HwIpInfo info{};
    ASSERT_EQ(gaudi_info(fd, abi::kInfoHwIp, info), 0);
    EXPECT_EQ(info.device_id, 0x1020U);
    EXPECT_EQ(info.dram_page_size, kCardPage);
    EXPECT_EQ(gaudi_info(fd, 999, info), EINVAL);
  }
  abi::MemoryArgs args{.word = {kCardPage}, .op = abi::kMemoryAlloc};
  EXPECT_EQ(::ioctl(control.get(), abi::kMemory.now, &args), -1);
  EXPECT_EQ(errno, ENOTTY);
}

TEST_F(VirtualGaudi, HasAGaudi2sAddressesAndPages) {
  const Mapped first = map(1);
  EXPECT_EQ(first.address, 0x1001'0018'0000'0000U);
  EXPECT_EQ(map(kCardPage + 1).address, first.address + kCardPage);
  EXPECT_EQ(map(1).address, first.address + 3 * kCardPage) << "whole pages";
  std::uint64_t handle = 0;
  EXPECT_EQ(card_->allocate(0, handle), EINVAL);
  EXPECT_EQ(card_->allocate(1ULL << 40U, handle), ENOMEM);
}

TEST_F(VirtualGaudi, MappedOrExportedMemoryCannotBeFreed) {
  const Mapped memory = map(kCardPage);
  EXPECT_EQ(card_->free(memory.handle), EINVAL) << "it is mapped";
  Fd dmabuf;
  ASSERT_EQ(card_->export_range({memory.address, kHostPage}, dmabuf), 0);
  Fd another;
  ASSERT_EQ(card_->export_range({memory.address, kHostPage}, another), 0);
  EXPECT_EQ(card_->unmap(memory.address), EINVAL) << "it is exported";
  dmabuf.reset();
  EXPECT_EQ(card_->unmap(memory.address), EINVAL) << "it is exported once more";
  another.reset();
  EXPECT_EQ(card_->unmap(memory.address), 0);
  EXPECT_EQ(card_->unmap(memory.address), EINVAL) << "it is not mapped any more";
  EXPECT_EQ(card_->free(memory.handle), 0);
  EXPECT_EQ(card_->free(memory.handle), EINVAL);
  EXPECT_EQ(counted("exports"), 2);
}

TEST_F(VirtualGaudi, ExportsWholePagesFromTheBaseOfAMappingAlone) {
  const std::uint64_t base = map(2 * kCardPage).address;
  std::uint64_t host = 0;
  std::array<char, 1> byte{};
  ASSERT_EQ(card_->map_host(byte.data(), kHostPage, host), 0);
  Fd dmabuf;
  // In this order: a range from within a page, from the second page, of no bytes, of no whole host
  // page, from an offset that is no page, beyond the end, from an offset at the end, of a length
  // that wraps around, and at the address of host memory.
  const std::array<RawGaudi::Range, 9> refused{{{base + kHostPage, kHostPage},
                                                {base + kCardPage, kHostPage},
                                                {base, 0},
                                                {base, kHostPage - 1},
                                                {base, kHostPage, 100},
                                                {base, 2 * kCardPage + kHostPage},
                                                {base, kHostPage, 2 * kCardPage},
                                                {base, 2 * kHostPage, UINT64_MAX - kHostPage + 1},
                                                {host, kHostPage}}};
  for (const RawGaudi::Range& range : refused) {
    EXPECT_EQ(card_->export_range(range, dmabuf), EINVAL)
        << range.address << " " << range.size << " " << range.offset;
  }
  for (const unsigned flags :
       {0U, unsigned{O_RDWR}, unsigned{O_CLOEXEC}, unsigned{O_RDONLY | O_CLOEXEC}})
    EXPECT_EQ(card_->export_range({base, kHostPage}, dmabuf, flags), EINVAL) << flags;
  EXPECT_EQ(counted("exports"), 0);
  EXPECT_EQ(card_->export_range({base, kCardPage, kCardPage}, dmabuf), 0);
  EXPECT_EQ(::lseek(dmabuf.get(), 0, SEEK_END), static_cast<off_t>(kCardPage));
}

TEST_F(VirtualGaudi, MemoryCannotBeMappedByTheCpu) {
  const std::uint64_t base = map(kCardPage).address;
  Fd dmabuf;
  ASSERT_EQ(card_->export_range({base, kHostPage}, dmabuf), 0);
  EXPECT_EQ(::mmap(nullptr, kHostPage, PROT_READ, MAP_SHARED, dmabuf.get(), 0), MAP_FAILED);
  EXPECT_EQ(::mmap(nullptr, kHostPage, PROT_READ, MAP_SHARED, card_->descriptor(), 0), MAP_FAILED);
  std::array<char, 1> byte{};
  EXPECT_EQ(::read(dmabuf.get(), byte.data(), 1), -1);
  EXPECT_EQ(::write(dmabuf.get(), byte.data(), 1), -1);
}

TEST_F(VirtualGaudi, IsBusyUntilTheLastOfItsDmabufsIsClosed) {
  Fd dmabuf;
  ASSERT_EQ(card_->export_range({map(kCardPage).address, kHostPage}, dmabuf), 0);
  const Fd duplicate(::fcntl(dmabuf.get(), F_DUPFD_CLOEXEC, 0));
  card_->close();
  EXPECT_EQ(RawGaudi().open_error(), EBUSY);
  dmabuf.reset();
  EXPECT_EQ(RawGaudi().open_error(), EBUSY) << "a duplicate is open";
}

TEST_F(VirtualGaudi, IsHeldByARegistrationWhoseDescriptorIsClosed) {
  const Mapped memory = map(kCardPage);
  const Verbs verbs;
  Fd dmabuf;
  ASSERT_EQ(card_->export_range({memory.address, kCardPage}, dmabuf), 0);
  ibv_mr* const mr =
      verbs.import(dmabuf.get(), kHostPage, 3 * kHostPage, memory.address + kHostPage);
  ASSERT_NE(mr, nullptr) << errno;
  dmabuf.reset();
  EXPECT_EQ(counted("maps") - counted("unmaps"), 1);
  EXPECT_EQ(counted("exports") - counted("releases"), 1);
  EXPECT_EQ(card_->unmap(memory.address), EINVAL);
  card_->close();
  EXPECT_EQ(RawGaudi().open_error(), EBUSY) << "the registration holds the card";
  EXPECT_EQ(::ibv_dereg_mr(mr), 0);
}

TEST_F(VirtualGaudi, MemoryIsGivenBackInTheDocumentedOrder) {
  const Mapped memory = map(kCardPage);
  const Verbs verbs;
  Fd dmabuf;
  ASSERT_EQ(card_->export_range({memory.address, kCardPage}, dmabuf), 0);
  ibv_mr* const mr = verbs.import(dmabuf.get(), 0, kCardPage, memory.address);
  ASSERT_NE(mr, nullptr) << errno;
  EXPECT_EQ(::ibv_dereg_mr(mr), 0);
  EXPECT_EQ(counted("unmaps"), 1);
  EXPECT_EQ(card_->unmap(memory.address), EINVAL);
  dmabuf.reset();
  EXPECT_EQ(counted("releases"), 1);
  EXPECT_EQ(card_->unmap(memory.address), 0);
  EXPECT_EQ(card_->free(memory.handle), 0);
  card_->close();
  EXPECT_EQ(RawGaudi().open_error(), 0);
}

TEST_F(VirtualGaudi, RefusesImportersThatCannotReachTheCard) {
  Fd dmabuf;
  ASSERT_EQ(card_->export_range({map(kCardPage).address, kCardPage}, dmabuf), 0);
  const Verbs verbs;
  forbid_peer_to_peer(true);
  errno = 0;
  EXPECT_EQ(verbs.import(dmabuf.get(), 0, kHostPage, 0), nullptr);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(counted("attaches"), 1);
  EXPECT_EQ(counted("maps"), 0);
}

TEST_F(VirtualGaudi, RefusesToBeRegisteredBeyondItsDmabuf) {
  Fd dmabuf;
  const std::uint64_t base = map(kCardPage).address;
  ASSERT_EQ(card_->export_range({base, 2 * kHostPage}, dmabuf), 0);
  const Verbs verbs;
  errno = 0;
  EXPECT_EQ(verbs.import(dmabuf.get(), 0, 3 * kHostPage, base), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(verbs.import(dmabuf.get(), 100, kHostPage, base), nullptr)
      << "offset and address are at different places of a page";
  EXPECT_EQ(verbs.import(-1, 0, kHostPage, base), nullptr);
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(counted("maps"), counted("unmaps"));
}

}  // namespace
}  // namespace hbmwire::test

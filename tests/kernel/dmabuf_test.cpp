// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "hbmwire/buffer.hpp"
#include "hbmwire/context.hpp"
#include "hbmwire/fd.hpp"

#include "dmabuf_exporters.hpp"
#include "tests/library/fd_passing.hpp"
#include "tests/support/open_descriptors.hpp"
#include <linux/dma-buf.h>

// dma-bufs of a real kernel's exporters, through the domain `dmabuf`, and a real driver that does
// not import them (rxe). Runs in a guest: tests/kernel.
namespace hbmwire::test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kSize = 1 << 20;

Wait soon() { return {Deadline::after(10s), -1}; }

std::vector<std::byte> pattern(std::size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t at = 0; at < size; ++at)
    bytes[at] = static_cast<std::byte>(at * 31 + at / 256 + seed);
  return bytes;
}

/// The CPU's view, mapped by the test itself: it must show the bytes that the library copied.
class View {
 public:
  explicit View(int fd)
      : fd_(fd), base_(::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) {}

  View(const View&) = delete;
  View& operator=(const View&) = delete;

  ~View() {
    if (base_ != MAP_FAILED) ::munmap(base_, kSize);
  }

  explicit operator bool() const { return base_ != MAP_FAILED; }

  [[nodiscard]] std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(base_), kSize};
  }

  /// Returns 0 or the errno. Accesses by the CPU between START and END are synchronised.
  [[nodiscard]] int synchronise(std::uint64_t flags) const {
    dma_buf_sync sync{.flags = flags};
    return ::ioctl(fd_, DMA_BUF_IOCTL_SYNC, &sync) == 0 ? 0 : errno;
  }

 private:
  int fd_;
  void* base_;
};

class KernelDmabuf : public testing::TestWithParam<DmabufExporter> {
 protected:
  void SetUp() override {
    dmabuf_ = GetParam().make(kSize);
    ASSERT_TRUE(dmabuf_) << GetParam().node << ": " << std::strerror(errno);
  }

  [[nodiscard]] Result<Allocation> import(std::uint64_t offset, std::uint64_t length,
                                          void* mapping = nullptr) const {
    return context_.import_dmabuf(
        {.fd = dmabuf_.get(), .offset_bytes = offset, .length_bytes = length, .mapping = mapping});
  }

  Context context_ = *Context::create();
  Fd dmabuf_;
};

TEST_P(KernelDmabuf, IsImportedWithBoundsAndDescriptors) {
  const int before = open_descriptors();
  {
    const auto whole = import(0, kSize);
    ASSERT_TRUE(whole) << describe(whole.error());
    EXPECT_EQ(whole->domain().copy_engine(), "CPU");
    for (const auto& [offset, length] :
         {std::pair<std::uint64_t, std::uint64_t>{0, kSize + 1}, {1, kSize}, {kSize, 1}}) {
      const auto beyond = import(offset, length);
      ASSERT_FALSE(beyond) << offset << " " << length;
      EXPECT_EQ(beyond.error().code, Errc::invalid_argument);
      EXPECT_EQ(beyond.error().hint, Hint::not_a_dmabuf);
    }
    EXPECT_EQ(open_descriptors(), before + 1);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_P(KernelDmabuf, IsCopiedToAndFromByTheCpu) {
  const View view(dmabuf_.get());
  ASSERT_TRUE(view) << std::strerror(errno);
  const auto memory = import(5000, 100'000);
  ASSERT_TRUE(memory) << describe(memory.error());
  const auto sent = pattern(90'000, 1);
  ASSERT_TRUE(memory->domain().copy_in(memory->address() + 77, sent, soon()));
  ASSERT_EQ(view.synchronise(DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW), 0);
  const auto seen = view.bytes();
  EXPECT_TRUE(std::equal(sent.begin(), sent.end(), seen.begin() + 5077));
  EXPECT_EQ(seen[5076], std::byte{0});
  EXPECT_EQ(seen[5077 + 90'000], std::byte{0});
  const auto answer = pattern(90'000, 2);
  std::copy(answer.begin(), answer.end(), seen.begin() + 5077);
  ASSERT_EQ(view.synchronise(DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW), 0);
  std::vector<std::byte> got(90'000);
  ASSERT_TRUE(memory->domain().copy_out(memory->address() + 77, got, soon()));
  EXPECT_EQ(got, answer);
}

TEST_P(KernelDmabuf, IsSeenAtTheApplicationsMapping) {
  const View view(dmabuf_.get());
  ASSERT_TRUE(view) << std::strerror(errno);
  const auto memory = import(8192, 50'000, view.bytes().data() + 8192);
  ASSERT_TRUE(memory) << describe(memory.error());
  EXPECT_EQ(memory->address(), reinterpret_cast<std::uintptr_t>(view.bytes().data() + 8192));
  const auto sent = pattern(50'000, 3);
  ASSERT_TRUE(memory->domain().copy_in(memory->address(), sent, soon()));
  EXPECT_TRUE(std::equal(sent.begin(), sent.end(), view.bytes().begin() + 8192));
}

/// The kernel knows the call, and refuses unknown flags. An exporter that ignored the call would
/// accept everything.
TEST_P(KernelDmabuf, KnowsSynchronisation) {
  const View view(dmabuf_.get());
  ASSERT_TRUE(view) << std::strerror(errno);
  for (const std::uint64_t way :
       {std::uint64_t{DMA_BUF_SYNC_READ}, std::uint64_t{DMA_BUF_SYNC_WRITE},
        std::uint64_t{DMA_BUF_SYNC_RW}}) {
    EXPECT_EQ(view.synchronise(DMA_BUF_SYNC_START | way), 0);
    EXPECT_EQ(view.synchronise(DMA_BUF_SYNC_END | way), 0);
  }
  EXPECT_EQ(view.synchronise(0), EINVAL);
  EXPECT_EQ(view.synchronise(1U << 20U), EINVAL);
}

/// The other process: receives the descriptor, and adds one to each of the bytes. Returns its exit
/// code.
int increment_what_comes(int socket) {
  const Fd dmabuf = receive_fd(socket);
  if (!dmabuf) return 2;
  const auto context = Context::create();
  const auto memory = context->import_dmabuf({.fd = dmabuf.get(), .length_bytes = kSize});
  if (!memory) {
    std::fprintf(stderr, "importer: %s\n", describe(memory.error()).c_str());
    return 3;
  }
  std::vector<std::byte> bytes(kSize);
  if (!memory->domain().copy_out(memory->address(), bytes, soon())) return 4;
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(static_cast<unsigned>(byte) + 1);
  return memory->domain().copy_in(memory->address(), bytes, soon()) ? 0 : 5;
}

TEST_P(KernelDmabuf, IsPassedToAnotherProcess) {
  std::array<int, 2> pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
  Fd ours(pair[0]);
  Fd theirs(pair[1]);
  // Forked before the dma-buf's memory has contents, and without its descriptor, which can then
  // only come through the socket.
  const pid_t child = ::fork();
  if (child == 0) {
    ours.reset();
    dmabuf_.reset();
    ::_exit(increment_what_comes(theirs.get()));
  }
  theirs.reset();
  const auto memory = import(0, kSize);
  ASSERT_TRUE(memory) << describe(memory.error());
  ASSERT_TRUE(memory->domain().copy_in(memory->address(), pattern(kSize, 4), soon()));
  send_fd(ours.get(), dmabuf_.get());
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  ASSERT_EQ(WEXITSTATUS(status), 0);
  std::vector<std::byte> got(kSize);
  ASSERT_TRUE(memory->domain().copy_out(memory->address(), got, soon()));
  EXPECT_EQ(got, pattern(kSize, 5));
}

TEST_P(KernelDmabuf, OutlivesTheExportersDescriptor) {
  const auto memory = import(0, kSize);
  ASSERT_TRUE(memory) << describe(memory.error());
  dmabuf_.reset();
  ASSERT_TRUE(memory->domain().copy_in(memory->address(), pattern(kSize, 6), soon()));
  std::vector<std::byte> got(kSize);
  ASSERT_TRUE(memory->domain().copy_out(memory->address(), got, soon()));
  EXPECT_EQ(got, pattern(kSize, 6));
}

void expect_refused(const Allocation& memory, const Nic& nic, const char* name) {
  const int before = open_descriptors();
  for (const Access access : {Access::local_write, Access::remote_write, Access::remote_read}) {
    const auto region = nic.register_memory(memory, access);
    ASSERT_FALSE(region) << name << " imports it";
    EXPECT_EQ(region.error().stage, Stage::register_memory);
    EXPECT_EQ(region.error().code, Errc::not_supported);
    EXPECT_EQ(region.error().hint, Hint::dmabuf_not_supported);
    const std::string sentence = describe(region.error());
    for (const char* part :
         {name, "ibv_reg_dmabuf_mr", "EOPNOTSUPP", "can't import dma-bufs", "use host memory"})
      EXPECT_NE(sentence.find(part), std::string::npos) << part << " is not in: " << sentence;
  }
  const auto buffer = Buffer::create(memory, nic, Access::remote_write);
  ASSERT_FALSE(buffer) << "a buffer of a dma-buf that no NIC has";
  EXPECT_EQ(buffer.error().hint, Hint::dmabuf_not_supported) << describe(buffer.error());
  EXPECT_EQ(open_descriptors(), before);
}

TEST_P(KernelDmabuf, IsRefusedByRxeWithCauseAndRemedy) {
  const auto memory = import(4096, 65'536);
  ASSERT_TRUE(memory) << describe(memory.error());
  const auto nic = Nic::open();
  ASSERT_TRUE(nic) << describe(nic.error());
  expect_refused(*memory, *nic, "rxe0");
}

/// Run by `hbmwire emulate`, whose NIC imports only dma-bufs of emulated exporters. It meets
/// dma-bufs of real cards in this way if `--keep` leaves them visible.
TEST_P(KernelDmabuf, IsRefusedByAnEmulatedNicWithCauseAndRemedy) {
  const auto memory = import(4096, 65'536);
  ASSERT_TRUE(memory) << describe(memory.error());
  const auto nic = Nic::open();
  ASSERT_TRUE(nic) << describe(nic.error());
  expect_refused(*memory, *nic, "emu0");
}

/// If a program registered the CPU's mapping instead, rxe would refuse that, too.
TEST_P(KernelDmabuf, HasAMappingThatIsNoHostMemory) {
  const View view(dmabuf_.get());
  ASSERT_TRUE(view) << std::strerror(errno);
  const auto nic = Nic::open();
  ASSERT_TRUE(nic) << describe(nic.error());
  const auto memory = context_.borrow(reinterpret_cast<std::uintptr_t>(view.bytes().data()), kSize);
  ASSERT_TRUE(memory) << describe(memory.error());
  const auto region = nic->register_memory(*memory, Access::local_write);
  ASSERT_FALSE(region);
  EXPECT_EQ(region.error().number, EFAULT) << describe(region.error());
  EXPECT_EQ(region.error().hint, Hint::not_host_memory) << describe(region.error());
}

constexpr DmabufExporter kExporters[] = {
    {"udmabuf", "/dev/udmabuf", make_udmabuf},
    {"heap", "/dev/dma_heap/system", make_heap_buffer},
    {"vgem", "/dev/dri/card*", make_vgem_buffer},
};

INSTANTIATE_TEST_SUITE_P(Of, KernelDmabuf, testing::ValuesIn(kExporters),
                         [](const auto& subject) { return std::string(subject.param.name); });

}  // namespace
}  // namespace hbmwire::test

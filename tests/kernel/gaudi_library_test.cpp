// SPDX-License-Identifier: MIT
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <memory>
#include <optional>

#include "hbmwire/buffer.hpp"
#include "hbmwire/fd.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/nic.hpp"

#include "gaudi_fixture.hpp"
#include "tests/library/fd_passing.hpp"

// The virtual Gaudi through the library, and the kernel's RoCE. Runs in a guest: tests/kernel.
namespace hbmwire::test {
namespace {

constexpr std::uint64_t kSome = 64 << 10;  // only a part of a page: a guest is slow
// The seed of the bytes that the host puts into the BAR: tests/kernel/cases_gaudi.py.
constexpr unsigned kHostsSeed = 77;

class KernelGaudi : public OnGaudi {
 protected:
  [[nodiscard]] static Result<Buffer> make_buffer(std::uint64_t size) {
    HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
    HBMWIRE_TRY_ASSIGN(const auto domain, context.open(MemoryType::gaudi));
    HBMWIRE_TRY_ASSIGN(const Nic nic, Nic::open());
    HBMWIRE_TRY_ASSIGN(const Allocation memory, domain->allocate(size));
    return Buffer::create(memory, nic, Access::remote_write | Access::remote_read);
  }
};

TEST_F(KernelGaudi, IsFoundAndOpenedWithoutHlThunk) {
  const auto context = Context::create();
  ASSERT_TRUE(context) << describe(context.error());
  const MemoryProbe& probe = context->memory()[static_cast<std::size_t>(MemoryType::gaudi)];
  ASSERT_FALSE(probe.missing) << describe(*probe.missing);
  EXPECT_NE(probe.library.find("habanalabs"), std::string::npos) << probe.library;
  ASSERT_FALSE(probe.devices.empty());
  EXPECT_EQ(probe.devices[0].name, "gaudi2 " + probe.devices[0].pci_address);
  EXPECT_EQ(probe.devices[0].page_bytes, kCardPage);
  EXPECT_EQ(probe.devices[0].status, "Operational");
  const auto domain = context->open(MemoryType::gaudi);
  ASSERT_TRUE(domain) << describe(domain.error());
  EXPECT_EQ((*domain)->device().driven_by, "habanalabs");
  EXPECT_EQ((*domain)->device().pci_address, probe.devices[0].pci_address);
}

/// No CPU of the guest has touched these bytes.
TEST_F(KernelGaudi, ReadsBytesThatTheHostPutIntoItsMemory) {
  auto buffer = make_buffer(3 * kCardPage);
  ASSERT_TRUE(buffer) << describe(buffer.error());
  EXPECT_EQ(buffer->region().path(), Path::zero_copy);
  std::vector<std::byte> got(kSome);
  for (std::uint64_t page = 0; page < 3; ++page) {
    const std::uint64_t offset = page * kCardPage + 777;
    const std::int64_t at = bar_offset(buffer->region().address() + offset);
    ASSERT_GE(at, 0);
    const auto done = buffer->read(offset, got, soon());
    ASSERT_TRUE(done) << describe(done.error());
    EXPECT_EQ(got, pattern(kSome, kHostsSeed, static_cast<std::size_t>(at))) << page;
  }
}

/// The card's pages are not contiguous in the BAR, so writes across their borders must be split.
/// The host compares the bytes that it finds in the BAR.
TEST_F(KernelGaudi, WritesBytesThatTheHostSees) {
  constexpr std::uint64_t kBegin = kCardPage - 1234;
  constexpr std::uint64_t kLength = kCardPage + 3000;
  auto buffer = make_buffer(4 * kCardPage);
  ASSERT_TRUE(buffer) << describe(buffer.error());
  const auto sent = pattern(kLength, 5);
  const auto written = buffer->write(kBegin, sent, soon());
  ASSERT_TRUE(written) << describe(written.error());
  std::vector<std::byte> got(kLength);
  ASSERT_TRUE(buffer->read(kBegin, got, soon()));
  EXPECT_EQ(got, sent);
  // For each page, prints the place in the BAR, the length, the first byte of the pattern, and the
  // pattern's seed.
  for (std::uint64_t from = 0, length = 0; from < kLength; from += length) {
    const std::uint64_t address = buffer->region().address() + kBegin + from;
    length = std::min(kLength - from, kCardPage - address % kCardPage);
    std::printf("HOST %lld %llu %llu 5\n", static_cast<long long>(bar_offset(address)),
                static_cast<unsigned long long>(length), static_cast<unsigned long long>(from));
  }
}

TEST_F(KernelGaudi, SmallAllocationsShareAPageAndItsDmabuf) {
  const auto context = Context::create();
  const auto domain = context->open(MemoryType::gaudi);
  ASSERT_TRUE(domain) << describe(domain.error());
  const auto nic = Nic::open();
  ASSERT_TRUE(nic) << describe(nic.error());
  std::vector<Buffer> buffers;
  for (unsigned i = 0; i < 5; ++i) {
    const auto memory = (*domain)->allocate(10'000);
    ASSERT_TRUE(memory) << describe(memory.error());
    auto buffer = Buffer::create(*memory, *nic, Access::remote_write);
    ASSERT_TRUE(buffer) << describe(buffer.error());
    buffers.push_back(std::move(*buffer));
    ASSERT_TRUE(buffers.back().write(0, pattern(10'000, i), soon()));
  }
  EXPECT_EQ(counted("exports"), 1);
  for (unsigned i = 0; i < 5; ++i) {
    std::vector<std::byte> got(10'000);
    ASSERT_TRUE(buffers[i].read(0, got, soon()));
    EXPECT_EQ(got, pattern(10'000, i)) << i;
  }
}

TEST_F(KernelGaudi, StaysOpenUntilItsLastUserGoes) {
  std::optional<Region> region;
  {
    const auto context = Context::create();
    const auto domain = context->open(MemoryType::gaudi);
    ASSERT_TRUE(domain) << describe(domain.error());
    const auto memory = (*domain)->allocate(kCardPage);
    const auto nic = Nic::open();
    auto registered = nic->register_memory(*memory, Access::remote_write);
    ASSERT_TRUE(registered) << describe(registered.error());
    region = std::move(*registered);
  }
  EXPECT_EQ(RawGaudi().open_error(), EBUSY);
  EXPECT_EQ(counted("maps") - counted("unmaps"), 1);
  region.reset();
}

TEST_F(KernelGaudi, EachRefusalNamesItsObstacle) {
  const auto context = Context::create();
  auto domain = context->open(MemoryType::gaudi);
  ASSERT_TRUE(domain) << describe(domain.error());
  const auto memory = (*domain)->allocate(kCardPage);
  ASSERT_TRUE(memory) << describe(memory.error());
  const auto nic = Nic::open();
  forbid_peer_to_peer(true);
  const auto region = nic->register_memory(*memory, Access::remote_write);
  forbid_peer_to_peer(false);
  ASSERT_FALSE(region);
  EXPECT_EQ(region.error().number, EPERM);
  EXPECT_EQ(region.error().hint, Hint::dmabuf_no_p2p);
  const auto too_much = (*domain)->allocate(1ULL << 40U);
  ASSERT_FALSE(too_much);
  EXPECT_EQ(too_much.error().hint, Hint::device_memory_exhausted);
  const auto second_owner = Context::create()->open(MemoryType::gaudi, {.device = "0"});
  ASSERT_FALSE(second_owner);
  EXPECT_EQ(second_owner.error().hint, Hint::gaudi_busy);
}

/// The other process: imports the received dma-buf, and reads it with its own NIC. Returns its exit
/// code.
int compare_what_comes(int socket) {
  const Fd dmabuf = receive_fd(socket);
  if (!dmabuf) return 2;
  const auto context = Context::create();
  const auto memory = context->import_dmabuf({.fd = dmabuf.get(), .length_bytes = kCardPage});
  if (!memory) return 3;
  const auto nic = Nic::open();
  auto buffer = Buffer::create(*memory, *nic, Access::remote_read);
  if (!buffer) {
    std::fprintf(stderr, "importer: %s\n", describe(buffer.error()).c_str());
    return 4;
  }
  std::vector<std::byte> got(kSome);
  if (!buffer->read(kCardPage - kSome, got, soon())) return 5;
  return got == pattern(kSome, 9) ? 0 : 6;
}

TEST_F(KernelGaudi, AnotherProcessReachesItByTheDmabufAlone) {
  std::array<int, 2> pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
  Fd ours(pair[0]);
  Fd theirs(pair[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    ours.reset();
    ::_exit(compare_what_comes(theirs.get()));
  }
  theirs.reset();
  auto buffer = make_buffer(kCardPage);
  ASSERT_TRUE(buffer) << describe(buffer.error());
  ASSERT_TRUE(buffer->write(kCardPage - kSome, pattern(kSome, 9), soon()));
  send_fd(ours.get(), buffer->region().dmabuf_fd());
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(KernelGaudi, AProcessThatIsKilledLeavesNothing) {
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto buffer = make_buffer(kCardPage);
    const char byte = buffer ? 'y' : 'n';
    (void)!::write(ready[1], &byte, 1);
    ::pause();
  }
  const Fd reader(ready[0]);
  Fd(ready[1]).reset();
  char byte = 0;
  ASSERT_EQ(::read(reader.get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  EXPECT_EQ(RawGaudi().open_error(), EBUSY);
  EXPECT_EQ(counted("maps") - counted("unmaps"), 1);
  ::kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
}

}  // namespace
}  // namespace hbmwire::test

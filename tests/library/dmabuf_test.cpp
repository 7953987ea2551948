// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/udmabuf.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "hbmwire/buffer.hpp"
#include "hbmwire/context.hpp"
#include "hbmwire/fd.hpp"
#include "hbmwire/memory_domain.hpp"

#include "emulated_hooks.hpp"
#include "fd_passing.hpp"
#include "helpers.hpp"
#include "open_memory.hpp"

// Descriptors from the application. memory_test (Mappable, Unmappable) tests the behaviour that
// imports share with other memory.
namespace hbmwire {
namespace {

using test::filled;
using test::soon;

constexpr std::uint64_t kSize = 64 << 10;

Fd make_memfd(std::uint64_t size = kSize, unsigned flags = 0) {
  Fd file(::memfd_create("dmabuf_test", MFD_CLOEXEC | flags));
  EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(size)), 0);
  return file;
}

class DmabufImport : public testing::Test {
 protected:
  [[nodiscard]] Result<Allocation> import(int fd, std::uint64_t offset, std::uint64_t length,
                                          void* mapping = nullptr) const {
    return context_.import_dmabuf(
        {.fd = fd, .offset_bytes = offset, .length_bytes = length, .mapping = mapping});
  }

  /// The error of an import that must be refused.
  [[nodiscard]] Error refused(int fd, std::uint64_t offset = 0,
                              std::uint64_t length = kSize) const {
    const auto memory = import(fd, offset, length);
    EXPECT_FALSE(memory);
    if (memory) return {};
    EXPECT_EQ(memory.error().stage, Stage::open) << describe(memory.error());
    return memory.error();
  }

  Context context_ = *Context::create();
};

TEST_F(DmabufImport, NamesADescriptorThatIsNoDmabuf) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const Fd reader(pipe[0]);
  const Fd writer(pipe[1]);
  const Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Fd event(::eventfd(0, EFD_CLOEXEC));
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const Fd folder(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const Fd empty = make_memfd(0);
  for (const int fd : {reader.get(), writer.get(), socket.get(), event.get(), null.get(),
                       folder.get(), empty.get(), 1'000'000, -1}) {
    const Error error = refused(fd);
    EXPECT_EQ(error.code, Errc::invalid_argument) << describe(error);
    EXPECT_EQ(error.hint, Hint::not_a_dmabuf) << describe(error);
  }
}

TEST_F(DmabufImport, NamesADmabufThatIsTooShort) {
  const Fd file = make_memfd();
  EXPECT_TRUE(import(file.get(), 0, kSize));
  EXPECT_TRUE(import(file.get(), kSize - 1, 1));
  for (const auto& [offset, length] : {std::pair<std::uint64_t, std::uint64_t>{0, kSize + 1},
                                       {1, kSize},
                                       {kSize, 1},
                                       {kSize + 1, 1},
                                       {1, ~std::uint64_t{0}},
                                       {~std::uint64_t{0}, 2},
                                       {0, 0}}) {
    const Error error = refused(file.get(), offset, length);
    EXPECT_EQ(error.code, Errc::invalid_argument) << describe(error);
    EXPECT_EQ(error.hint, Hint::not_a_dmabuf) << describe(error);
  }
}

TEST_F(DmabufImport, AFileOnADiskIsRefusedByTheNic) {
  const auto path = std::filesystem::temp_directory_path() / "hbmwire-no-dmabuf";
  const Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  std::filesystem::remove(path);
  ASSERT_EQ(::ftruncate(file.get(), kSize), 0);
  const auto memory = import(file.get(), 0, kSize);
  ASSERT_TRUE(memory);
  const auto nic = Nic::open();
  const auto region = nic->register_memory(*memory, Access::remote_write);
  if (region) GTEST_SKIP() << "temporary files are in memory here";
  EXPECT_EQ(region.error().hint, Hint::dmabuf_rejected) << describe(region.error());
}

TEST_F(DmabufImport, TakesADescriptorOfItsOwnAndLeavesTheCallersAlone) {
  Fd file = make_memfd();
  ASSERT_EQ(::lseek(file.get(), 100, SEEK_SET), 100);
  const int before = test::open_descriptors();
  auto memory = import(file.get(), 0, kSize);
  ASSERT_TRUE(memory) << describe(memory.error());
  EXPECT_EQ(::lseek(file.get(), 0, SEEK_CUR), 100);
  file.reset();
  EXPECT_EQ(test::open_descriptors(), before) << "one of ours for the one that was closed";
  ASSERT_TRUE(memory->domain().copy_in(memory->address(), filled(kSize, 3), soon()));
  memory = tl::make_unexpected(Error{});
  EXPECT_EQ(test::open_descriptors(), before - 1);
}

TEST_F(DmabufImport, ManyImportsOfOneBufferShareADescriptor) {
  const Fd file = make_memfd();
  const Fd copy(::dup(file.get()));
  const int before = test::open_descriptors();
  std::vector<Allocation> memory;
  for (std::uint64_t i = 0; i < 10; ++i)
    memory.push_back(*import(i % 2 == 0 ? file.get() : copy.get(), i * 100, 1000));
  EXPECT_EQ(test::open_descriptors(), before + 1);
  std::vector<std::byte> got(100);
  ASSERT_TRUE(memory[0].domain().copy_in(memory[0].address() + 900, filled(100, 5), soon()));
  ASSERT_TRUE(memory[9].domain().copy_out(memory[9].address(), got, soon()));
  EXPECT_EQ(got, filled(100, 5)) << "they are the same bytes at different addresses";
  memory.clear();
  EXPECT_EQ(test::open_descriptors(), before);
}

TEST_F(DmabufImport, HasUnusableAddressesWithoutAMapping) {
  const Fd file = make_memfd();
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const Fd reader(pipe[0]);
  const Fd writer(pipe[1]);
  for (const std::uint64_t offset : {0U, 1U, 4095U, 4096U, 5000U}) {
    const auto memory = import(file.get(), offset, 10'000);
    ASSERT_TRUE(memory);
    EXPECT_EQ(memory->address() % 4096, offset % 4096);
    EXPECT_EQ(::write(writer.get(), std::bit_cast<void*>(memory->address()), 1), -1);
    EXPECT_EQ(errno, EFAULT);
  }
  const Fd large = make_memfd(16 << 20);
  const auto memory = import(large.get(), (1 << 20) + 5, 8 << 20);
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->address() % (2 << 20), (1U << 20U) + 5) << "a NIC can use large pages";
}

TEST_F(DmabufImport, HasTheAddressesOfTheApplicationsMapping) {
  const Fd file = make_memfd();
  void* const base = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  ASSERT_NE(base, MAP_FAILED);
  auto* const bytes = static_cast<std::byte*>(base);
  {
    const auto memory = import(file.get(), 5000, 1000, bytes + 5000);
    ASSERT_TRUE(memory) << describe(memory.error());
    EXPECT_EQ(memory->address(), std::bit_cast<std::uint64_t>(bytes + 5000));
    ASSERT_TRUE(memory->domain().copy_in(memory->address() + 7, filled(10, 9), soon()));
    EXPECT_EQ(bytes[5006], std::byte{0});
    EXPECT_EQ(bytes[5007], std::byte{9});
    EXPECT_EQ(context_.find(memory->address(), 1)->device->type, MemoryType::dmabuf);

    const auto twice = import(file.get(), 5500, 1000, bytes + 5500);
    ASSERT_FALSE(twice) << "an address belongs to one import";
    EXPECT_EQ(twice.error().code, Errc::invalid_argument);
    const auto shifted = import(file.get(), 6001, 1000, bytes + 6000);
    ASSERT_FALSE(shifted);
    EXPECT_EQ(shifted.error().hint, Hint::dmabuf_page_offset);
  }
  EXPECT_EQ(context_.find(std::bit_cast<std::uint64_t>(bytes + 5000), 1)->device->type,
            MemoryType::host);
  EXPECT_EQ(bytes[5007], std::byte{9}) << "the mapping is the application's still";
  ::munmap(base, kSize);
}

TEST_F(DmabufImport, AReadOnlyDescriptorIsNotWritten) {
  const Fd file = make_memfd();
  ASSERT_EQ(::pwrite(file.get(), "seven", 5, 100), 5);
  const Fd reading(
      ::open(("/proc/self/fd/" + std::to_string(file.get())).c_str(), O_RDONLY | O_CLOEXEC));
  const auto memory = import(reading.get(), 0, kSize);
  ASSERT_TRUE(memory) << describe(memory.error());
  std::array<std::byte, 5> got{};
  ASSERT_TRUE(memory->domain().copy_out(memory->address() + 100, got, soon()));
  EXPECT_EQ(std::memcmp(got.data(), "seven", 5), 0);
  const auto written = memory->domain().copy_in(memory->address(), got, soon());
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Errc::permission_denied);

  const auto nic = Nic::open();
  EXPECT_TRUE(nic->register_memory(*memory, Access::remote_read));
  for (const Access access : {Access::local_write, Access::remote_write}) {
    const auto region = nic->register_memory(*memory, access);
    ASSERT_FALSE(region);
    EXPECT_EQ(region.error().code, Errc::permission_denied);
    EXPECT_EQ(region.error().hint, Hint::dmabuf_read_only) << describe(region.error());
  }
}

TEST_F(DmabufImport, OpenSaysThatItIsImported) {
  const auto domain = context_.open(MemoryType::dmabuf);
  ASSERT_FALSE(domain);
  EXPECT_NE(describe(domain.error()).find("Context::import_dmabuf()"), std::string::npos)
      << describe(domain.error());
  const auto without = Context::create({.memory = {MemoryType::host}});
  const Fd file = make_memfd();
  const auto memory = without->import_dmabuf({.fd = file.get(), .length_bytes = kSize});
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, Errc::not_found);
}

/// Another process: owns a card, fills memory of it, sends its dma-buf away, and checks the bytes
/// that the first process wrote. Its exit code is the result. Nothing of it runs in the test's own
/// process.
[[noreturn]] void export_to(int socket) {
  const auto run = [&]() -> Result<int> {
    HBMWIRE_TRY_ASSIGN(const auto card,
                       test::open_memory(MemoryType::gaudi,
                                         {.device = "1", .owner = MemoryOptions::Owner::hl_thunk}));
    HBMWIRE_TRY_ASSIGN(const Nic nic, Nic::open());
    HBMWIRE_TRY_ASSIGN(Buffer buffer, Buffer::create(card, nic, kSize, Access::none));
    HBMWIRE_TRY(buffer.write(0, filled(kSize, 1), soon()));
    test::send_fd(socket, buffer.region().dmabuf_fd());
    static_cast<void>(test::receive_fd(socket));  // the other process has written
    std::vector<std::byte> got(kSize);
    HBMWIRE_TRY(buffer.read(0, got, soon()));
    auto expected = filled(kSize, 1);
    // The other process wrote at 1000 in its import, which begins at 4000.
    std::fill_n(expected.begin() + 5000, 3000, std::byte{2});
    return got == expected ? 0 : 1;
  };
  const auto result = run();
  if (!result) std::fprintf(stderr, "exporter: %s\n", describe(result.error()).c_str());
  ::_exit(result ? *result : 2);
}

TEST(DmabufOfAnotherProcess, IsWrittenByRdma) {
  std::array<int, 2> pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
  Fd ours(pair[0]);
  Fd theirs(pair[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    ours.reset();
    export_to(theirs.get());
  }
  theirs.reset();
  {
    const Fd dmabuf = test::receive_fd(ours.get());
    ASSERT_TRUE(dmabuf) << "the exporter failed";
    const auto context = *Context::create();
    const auto memory =
        context.import_dmabuf({.fd = dmabuf.get(), .offset_bytes = 4000, .length_bytes = 10'000});
    ASSERT_TRUE(memory) << describe(memory.error());
    EXPECT_EQ(memory->domain().copy_engine(), "") << "the CPU can't map an accelerator's memory";
    const auto nic = Nic::open();
    ASSERT_TRUE(nic) << describe(nic.error());
    auto buffer = Buffer::create(*memory, *nic, Access::remote_write);
    ASSERT_TRUE(buffer) << describe(buffer.error());
    EXPECT_EQ(buffer->copy_path(), "NIC loopback");
    std::vector<std::byte> got(10'000);
    ASSERT_TRUE(buffer->read(0, got, soon()));
    EXPECT_EQ(got, filled(10'000, 1));
    ASSERT_TRUE(buffer->write(1000, filled(3000, 2), soon()));
  }
  test::send_fd(ours.get(), -1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "the card has other bytes";
}

/// The kernel's own exporter of ordinary memory gives a real dma-buf.
TEST_F(DmabufImport, TakesAUdmabuf) {
  const Fd device(::open("/dev/udmabuf", O_RDWR | O_CLOEXEC));
  if (!device) GTEST_SKIP() << "/dev/udmabuf: " << std::strerror(errno);
  const Fd file = make_memfd(kSize, MFD_ALLOW_SEALING);
  ASSERT_EQ(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  udmabuf_create create{};
  create.memfd = static_cast<std::uint32_t>(file.get());
  create.flags = UDMABUF_FLAGS_CLOEXEC;
  create.size = kSize;
  const Fd dmabuf(::ioctl(device.get(), UDMABUF_CREATE, &create));
  ASSERT_TRUE(dmabuf) << std::strerror(errno);
  EXPECT_EQ(refused(dmabuf.get(), 1, kSize).hint, Hint::not_a_dmabuf);
  const auto memory = import(dmabuf.get(), 5000, 1000);
  ASSERT_TRUE(memory) << describe(memory.error());
  EXPECT_EQ(memory->domain().copy_engine(), "CPU");
  ASSERT_TRUE(memory->domain().copy_in(memory->address(), filled(1000, 8), soon()));
  std::vector<std::byte> got(1000);
  ASSERT_EQ(::pread(file.get(), got.data(), 1000, 5000), 1000);
  EXPECT_EQ(got, filled(1000, 8));
  ASSERT_TRUE(memory->domain().copy_out(memory->address(), got, soon()));
  EXPECT_EQ(got, filled(1000, 8));
}

}  // namespace
}  // namespace hbmwire

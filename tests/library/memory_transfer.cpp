// SPDX-License-Identifier: MIT
#include <algorithm>
#include <optional>

#include "hbmwire/buffer.hpp"
#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/memory_domain.hpp"

#include "emulated_hooks.hpp"
#include "memory_contract.hpp"

// Memory and NICs together. Runs a second time on hardware that shows nothing before a flush
// (`--like-hardware flush`).
namespace hbmwire::test {

namespace {}  // namespace

TEST_P(MemoryTransfer, RdmaWritesExactlyItsRange) {
  constexpr std::size_t kSize = 50'000;
  Buffer buffer = take(Buffer::create(make(kSize, 3), nic(), kAll));
  EXPECT_EQ(buffer.region().path(), GetParam().exports ? Path::zero_copy : Path::host);
  EXPECT_EQ(buffer.copy_path(), has_engine() ? GetParam().copy_engine : "NIC loopback");
  auto model = pattern(kSize, 1);
  must(buffer.write(0, model, soon()));
  for (const auto& [offset, length] :
       {std::pair<std::uint64_t, std::size_t>{0, 1}, {4095, 2}, {10'001, 20'000}, {kSize - 1, 1}}) {
    RemoteMemory target = buffer.region().remote();
    target.address += offset;
    const auto bytes = pattern(length, static_cast<unsigned>(offset) + 2);
    rdma_write(bytes, target);
    std::ranges::copy(bytes, model.begin() + static_cast<std::ptrdiff_t>(offset));
    std::vector<std::byte> got(kSize);
    must(buffer.read(0, got, soon()));
    EXPECT_TRUE(got == model) << "after " << length << " bytes at " << offset;
  }
}

TEST_P(MemoryTransfer, NicsReadTheDevicesWrites) {
  constexpr std::size_t kSize = 20'000;
  Buffer buffer = take(Buffer::create(make(kSize, 4), nic(), kAll));
  Buffer target = take(Buffer::create(take(context_.open(MemoryType::host)), nic(), kSize, kAll));
  Connection connection = take(Connection::create(nic(), {}));
  must(connection.connect(connection.local()));
  for (unsigned seed = 1; seed < 5; ++seed) {
    must(buffer.write(0, pattern(kSize, seed), soon()));
    must(connection.post_read(0, {&target.region(), 0, kSize}, buffer.region().remote()));
    take(connection.wait(soon()));
    std::vector<std::byte> got(kSize);
    must(target.read(0, got, soon()));
    EXPECT_TRUE(same_bytes(got, pattern(kSize, seed))) << seed;
  }
}

TEST_P(MemoryTransfer, TheLastWriteArrivesLast) {
  Buffer buffer = take(Buffer::create(make(4096), nic(), kAll));
  for (unsigned seed = 0; seed < 10; ++seed) {
    rdma_write(pattern(4096, seed), buffer.region().remote());
    must(buffer.write(100, pattern(50, seed + 100), soon()));
    std::vector<std::byte> got(4096);
    must(buffer.read(0, got, soon()));
    auto expected = pattern(4096, seed);
    std::ranges::copy(pattern(50, seed + 100), expected.begin() + 100);
    EXPECT_TRUE(same_bytes(got, expected)) << seed;
  }
}

TEST_P(MemoryTransfer, OneExportServesEveryNic) {
  const Nic first = take(Nic::open("emu0"));
  const Nic second = take(Nic::open("emu1"));
  const auto memory = make(10'000, 5);
  const Region one = take(first.register_memory(memory, kAll));
  const Region two = take(second.register_memory(memory, kAll));
  EXPECT_EQ(one.dmabuf_fd(), two.dmabuf_fd());
  EXPECT_EQ(one.dmabuf_fd() >= 0, GetParam().exports);
  EXPECT_EQ(one.address(), two.address());
}

TEST_P(MemoryTransfer, ARegionKeepsItsMemory) {
  std::optional<Region> region;
  {
    const auto memory = make(10'000);
    write(memory, 0, pattern(10'000, 1));
    region = take(nic().register_memory(memory, kAll));
  }
  RemoteMemory target = region->remote();
  target.address += 5'000;
  rdma_write(pattern(100, 2), target);
  Buffer buffer = take(Buffer::create(region->allocation(), nic(), kAll));
  std::vector<std::byte> got(10'000);
  must(buffer.read(0, got, soon()));
  auto expected = pattern(10'000, 1);
  std::ranges::copy(pattern(100, 2), expected.begin() + 5'000);
  EXPECT_TRUE(same_bytes(got, expected));
}

TEST_P(MemoryTransfer, APartIsRegisteredAlone) {
  const auto memory = make(20'000, 6);
  write(memory, 0, pattern(20'000, 1));
  const auto part = take(context_.borrow(memory.address() + 6'001, 7'000));
  const Region region = take(nic().register_memory(part, kAll));
  EXPECT_EQ(region.remote().address, memory.address() + 6'001);
  EXPECT_EQ(region.remote().length_bytes, 7'000U);
  rdma_write(pattern(7'000, 2), region.remote());
  Buffer buffer = take(Buffer::create(memory, nic(), kAll));
  std::vector<std::byte> got(20'000);
  must(buffer.read(0, got, soon()));
  auto expected = pattern(20'000, 1);
  std::ranges::copy(pattern(7'000, 2), expected.begin() + 6'001);
  EXPECT_TRUE(same_bytes(got, expected));
}

TEST_P(MemoryTransfer, LeavesNothingBehind) {
  const auto once = [&] {
    Buffer buffer = take(Buffer::create(make(10'000), nic(), kAll));
    rdma_write(pattern(100, 1), buffer.region().remote());
  };
  once();
  const int descriptors = open_descriptors();
  const std::string objects = live_objects();
  for (int i = 0; i < 10; ++i) once();
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(live_objects(), objects);
}

}  // namespace hbmwire::test

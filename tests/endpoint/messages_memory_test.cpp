// SPDX-License-Identifier: MIT
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "hbmwire/fd.hpp"

#include "ends.hpp"
#include "internals.hpp"

/// Messages from memory imported as a foreign dma-buf, and messages longer than the NIC's longest
/// one.
namespace hbmwire::test {
namespace {

/// A dma-buf that the emulated NIC accepts, and that the CPU can read, too.
class Foreign {
 public:
  Foreign(const Context& context, Access access)
      : file_(::memfd_create("foreign", MFD_CLOEXEC)), region_(import(context, access)) {
    bytes_ = static_cast<std::byte*>(
        ::mmap(nullptr, kMessageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0));
    EXPECT_NE(bytes_, MAP_FAILED);
  }

  Foreign(const Foreign&) = delete;
  Foreign& operator=(const Foreign&) = delete;

  ~Foreign() { ::munmap(bytes_, kMessageBytes); }

  [[nodiscard]] const Region& region() const noexcept { return region_; }

  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {bytes_, kMessageBytes}; }

 private:
  Region import(const Context& context, Access access) const {
    EXPECT_EQ(::ftruncate(file_.get(), kMessageBytes), 0);
    return value(
        context.register_dmabuf({.fd = file_.get(), .length_bytes = kMessageBytes}, access));
  }

  Fd file_;
  Region region_;
  std::byte* bytes_ = nullptr;
};

void expect_moves(Ends& ends, const Slice& from, const Slice& into) {
  Transfer receive = value(ends.b->receive(into));
  Transfer send = value(ends.a->send(from));
  ends.drive([&] { return receive.done() && send.done(); });
  for (Transfer* const transfer : {&receive, &send}) {
    const auto over = transfer->poll();
    ASSERT_TRUE(over) << describe(over.error());
  }
  EXPECT_EQ(receive.bytes(), from.length_bytes);
}

class DmabufMessages : public ::testing::TestWithParam<Access> {};

TEST_P(DmabufMessages, ArriveFromADmabufAndInADmabuf) {
  Ends ends;
  for (const MemoryType other : {MemoryType::host, MemoryType::gaudi}) {
    Memory memory(ends.context, other, kMessageBytes, GetParam());
    Foreign foreign(ends.context, GetParam());
    unsigned seed = 10;
    for (const std::uint64_t size : {0UL, 1UL, 88UL, 5000UL, 8193UL, kMessageBytes}) {
      // The message lies in the middle of the memory, unless it is the whole memory.
      const std::uint64_t at = size == kMessageBytes ? 0 : 4099;
      const auto sent = pattern(kMessageBytes, ++seed);
      const auto same = [&](std::span<const std::byte> got) {
        const auto part = std::span(sent).subspan(at, size);
        return std::ranges::equal(got.subspan(at, size), part);
      };
      memory.set(sent);
      std::ranges::fill(foreign.bytes(), std::byte{0});
      expect_moves(ends, memory.slice(at, size), foreign.region().slice(at, size));
      EXPECT_TRUE(same(foreign.bytes())) << size;
      EXPECT_EQ(
          static_cast<std::size_t>(std::ranges::count(foreign.bytes().first(at), std::byte{0})),
          at);
      memory.set(std::vector<std::byte>(kMessageBytes));
      expect_moves(ends, foreign.region().slice(at, size), memory.slice(at, size));
      EXPECT_TRUE(size == 0 || same(memory.contents())) << size;
    }
  }
}

TEST_P(DmabufMessages, ArriveFromOneDmabufInAnother) {
  Ends ends;
  const Foreign from(ends.context, GetParam());
  const Foreign into(ends.context, GetParam());
  std::ranges::copy(pattern(kMessageBytes, 1), from.bytes().begin());
  expect_moves(ends, from.region().slice(0, kMessageBytes), into.region().slice(0, kMessageBytes));
  EXPECT_TRUE(std::ranges::equal(from.bytes(), into.bytes()));
}

TEST_P(DmabufMessages, ArriveInMoreThanOnePiece) {
  Ends ends;
  for (Worker* const worker : {&ends.a_worker, &ends.b_worker})
    internals::limit_messages(*worker, 1000);
  for (const MemoryType type : {MemoryType::host, MemoryType::gaudi}) {
    Memory memory(ends.context, type, kMessageBytes, GetParam());
    const Foreign foreign(ends.context, GetParam());
    const auto sent = pattern(kMessageBytes, 3);
    memory.fill(3);
    // More pieces than the send queue has room for; the last one is shorter.
    for (const std::uint64_t size : {9000UL, 10001UL, kMessageBytes}) {
      std::ranges::fill(foreign.bytes(), std::byte{0});
      expect_moves(ends, memory.slice(0, size), foreign.region().slice(0, size));
      EXPECT_TRUE(std::ranges::equal(foreign.bytes().first(size), std::span(sent).first(size)));
    }
    expect_moves(ends, foreign.region().slice(0, kMessageBytes), memory.slice(0, kMessageBytes));
  }
}

INSTANTIATE_TEST_SUITE_P(Rendezvous, DmabufMessages, ::testing::Values(kAll, Access::local_write),
                         [](const auto& access) {
                           return std::string(access.param == kAll ? "read" : "written");
                         });

}  // namespace
}  // namespace hbmwire::test

// SPDX-License-Identifier: MIT
#include <rapidcheck.h>

#include <algorithm>

#include "hbmwire/buffer.hpp"
#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/memory_domain.hpp"

#include "memory_contract.hpp"

// The arithmetic of offsets. Wherever an allocation lies, whichever part of it is registered, and
// whichever NIC writes, exactly the intended bytes change.
namespace hbmwire::test {

namespace {

struct Span {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

/// A random part of `size` bytes. The ends and single bytes occur more often than by chance.
Span any_part(std::uint64_t size) {
  const auto offset = *rc::gen::weightedOneOf<std::uint64_t>(
      {{3, rc::gen::inRange<std::uint64_t>(0, size)}, {1, rc::gen::just<std::uint64_t>(0)}});
  const auto length = *rc::gen::weightedOneOf<std::uint64_t>(
      {{3, rc::gen::inRange<std::uint64_t>(1, size - offset + 1)},
       {1, rc::gen::just<std::uint64_t>(1)},
       {1, rc::gen::just<std::uint64_t>(size - offset)}});
  return {offset, length};
}

/// A size close to pages, or within one.
std::uint64_t any_size() {
  const auto pages = *rc::gen::inRange<std::uint64_t>(0, 6);
  const auto rest =
      *rc::gen::weightedOneOf<std::uint64_t>({{3, rc::gen::inRange<std::uint64_t>(1, 4096)},
                                              {1, rc::gen::element<std::uint64_t>(1, 4095, 4096)}});
  return pages * 4096 + rest;
}

/// A source in host memory, and a connection to itself by which the NIC writes to a target.
struct Writer {
  Buffer source;
  Connection connection;

  static Writer create(const Context& context, const Nic& nic, std::uint64_t size) {
    Writer writer{take(Buffer::create(take(context.open(MemoryType::host)), nic, size, kAll)),
                  take(Connection::create(nic, {}))};
    must(writer.connection.connect(writer.connection.local()));
    return writer;
  }

  void write(const std::vector<std::byte>& bytes, const Region& region, std::uint64_t offset) {
    must(source.write(0, bytes, soon()));
    RemoteMemory target = region.remote();
    target.address += offset;
    must(connection.post_write(0, {&source.region(), 0, bytes.size()}, target));
    take(connection.wait(soon()));
  }
};

}  // namespace

TEST_P(MemoryProperty, EveryWayWritesExactlyItsRange) {
  const bool held = rc::check([&] {
    const std::uint64_t size = any_size();
    const auto before = make(any_size());  // shifts the next allocation
    const auto memory = make(size, *rc::gen::inRange<std::uint64_t>(0, 1'000'000));
    Buffer whole = take(Buffer::create(memory, nic(), kAll));
    Writer writer = Writer::create(context_, nic(), size);
    std::vector<std::byte> model(size, std::byte{0xee});
    must(whole.write(0, model, soon()));

    for (unsigned step = 0; step < 4; ++step) {
      const Span part = any_part(size);
      const Span range = any_part(part.length);
      const auto bytes = pattern(range.length, *rc::gen::inRange(0U, 1000U));
      const std::uint64_t at = part.offset + range.offset;
      switch (*rc::gen::inRange(0, 3)) {
        case 0:
          must(whole.write(at, bytes, soon()));
          break;
        case 1:
          writer.write(bytes, whole.region(), at);
          break;
        default: {
          const auto borrowed = take(context_.borrow(memory.address() + part.offset, part.length));
          const Region region = take(nic().register_memory(borrowed, kAll));
          writer.write(bytes, region, range.offset);
        }
      }
      std::ranges::copy(bytes, model.begin() + static_cast<std::ptrdiff_t>(at));
    }
    std::vector<std::byte> got(size);
    must(whole.read(0, got, soon()));
    RC_ASSERT(got == model);
    RC_ASSERT(!whole.write(size, std::vector<std::byte>(1), soon()).has_value());
    got.resize(size + 1);
    RC_ASSERT(!whole.read(0, got, soon()).has_value());
  });
  EXPECT_TRUE(held);
}

TEST_P(MemoryProperty, EveryPartIsExportedAtItsPlace) {
  const bool held = rc::check([&] {
    const std::uint64_t size = any_size();
    const auto memory = make(size, *rc::gen::inRange<std::uint64_t>(0, 1'000'000));
    const Span part = any_part(size);
    const auto range = memory.domain().export_dmabuf(memory.address() + part.offset, part.length);
    RC_ASSERT(range.has_value() == GetParam().exports);
    if (range) {
      RC_ASSERT(range->address() == memory.address() + part.offset);
      RC_ASSERT(range->length_bytes == part.length);
      RC_ASSERT(range->offset_bytes % 4096 == range->address() % 4096);
    }
    RC_ASSERT(
        !memory.domain().export_dmabuf(memory.address() + part.offset, size - part.offset + 1));
  });
  EXPECT_TRUE(held);
}

}  // namespace hbmwire::test

// SPDX-License-Identifier: MIT
#include "memory/host/sliced_copy.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "hbmwire/fd.hpp"

#include "tests/support/bytes.hpp"
#include "tests/support/lent_memory.hpp"

namespace hbmwire::memory::host {
namespace {

using test::overlay;
using test::pattern;
using test::same_bytes;

constexpr std::size_t kSlice = 512U << 10U;
constexpr std::size_t kBytes = 8 * kSlice;

/// A mapped memfd of which no page was touched.
class File {
 public:
  /// The file has `size_bytes`. kBytes are mapped; pages beyond the file give SIGBUS.
  explicit File(std::size_t size_bytes = kBytes)
      : fd_(::memfd_create("sliced copy", MFD_CLOEXEC)),
        memory_(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0)) {
    EXPECT_EQ(::ftruncate(fd_.get(), static_cast<off_t>(size_bytes)), 0);
    EXPECT_NE(memory_, MAP_FAILED);
    ::madvise(memory_, kBytes, MADV_NOHUGEPAGE);
  }

  File(const File&) = delete;
  File& operator=(const File&) = delete;

  ~File() { ::munmap(memory_, kBytes); }

  [[nodiscard]] std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(memory_), kBytes};
  }

  /// The number of the file's pages that were touched.
  [[nodiscard]] std::size_t pages() const {
    struct stat status {};

    EXPECT_EQ(::fstat(fd_.get(), &status), 0);
    return static_cast<std::size_t>(status.st_blocks) * 512 / 4096;
  }

 private:
  Fd fd_;
  void* memory_;
};

/// The number of polls, of which all but the last returned "not yet"; 0 if one failed.
std::size_t polls(SlicedCopy& copy) {
  for (std::size_t count = 1; count < 100; ++count) {
    const auto done = copy.poll();
    if (!done) return 0;
    if (*done) return count;
  }
  return 100;
}

struct Case {
  std::size_t length;
  std::size_t polls;
};

TEST(SlicedCopy, MovesExactlyItsBytes) {
  const auto source = pattern(kBytes, 1);
  for (const auto& [length, takes] :
       {Case{0, 1}, Case{1, 1}, Case{kSlice - 1, 1}, Case{kSlice, 1}, Case{kSlice + 1, 2},
        Case{2 * kSlice, 2}, Case{6 * kSlice + 7, 7}}) {
    for (const bool foreign : {false, true}) {
      auto expected = pattern(kBytes, 2);
      std::vector<std::byte> target = expected;
      overlay(expected, 4099, 77, 1, length);
      SlicedCopy copy{std::span(source).subspan(77, length),
                      std::span(target).subspan(4099, length),
                      {.from = foreign, .to = foreign}};
      EXPECT_EQ(polls(copy), takes) << length;
      EXPECT_TRUE(same_bytes(target, expected)) << length;
    }
  }
}

TEST(SlicedCopy, LeavesBytesBeyondItsSliceForLater) {
  const auto source = pattern(kBytes, 1);
  std::vector<std::byte> target(kBytes);
  SlicedCopy copy(source, target, {});
  for (std::size_t done = kSlice; done < kBytes; done += kSlice) {
    const auto polled = copy.poll();
    ASSERT_TRUE(polled);
    EXPECT_FALSE(*polled);
    std::vector<std::byte> expected(kBytes);
    overlay(expected, 0, 0, 1, done);
    EXPECT_TRUE(same_bytes(target, expected)) << done;
  }
}

TEST(SlicedCopy, MapsNoMorePagesThanItsSliceTakes) {
  constexpr std::size_t kPage = 4096;
  const File from;
  const File to;
  const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  if (page != kPage) GTEST_SKIP() << "counts pages of 4 KiB";
  SlicedCopy copy(from.bytes().subspan(kPage - 1, 6 * kSlice),
                  to.bytes().subspan(3 * kPage, 6 * kSlice), {.from = true, .to = true});
  ASSERT_TRUE(copy.poll());
  // The slice begins with the last byte of a page.
  EXPECT_EQ(from.pages(), kSlice / kPage + 1);
  EXPECT_EQ(to.pages(), kSlice / kPage);
}

/// Expects that the copy fails with `number` and has written nothing.
void expect_fails(std::span<const std::byte> from, std::span<std::byte> to,
                  SlicedCopy::Foreign foreign, int number) {
  const auto done = SlicedCopy(from, to, foreign).poll();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().stage, Stage::copy);
  EXPECT_EQ(done.error().number, number) << describe(done.error());
}

TEST(SlicedCopy, MemoryWithoutPagesIsAnError) {
  const File none(0);
  std::vector<std::byte> own = pattern(kSlice, 3);
  expect_fails(none.bytes().first(kSlice), own, {.from = true, .to = false}, EFAULT);
  EXPECT_TRUE(same_bytes(own, pattern(kSlice, 3)));
  expect_fails(own, none.bytes().first(kSlice), {.from = false, .to = true}, EFAULT);
}

TEST(SlicedCopy, UnmappedMemoryIsAnError) {
  std::vector<std::byte> own(kSlice);
  void* const gone = ::mmap(nullptr, kSlice, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(gone, MAP_FAILED);
  ASSERT_EQ(::munmap(gone, kSlice), 0);
  const std::span hole(static_cast<std::byte*>(gone), kSlice);
  expect_fails(hole, own, {.from = true, .to = false}, ENOMEM);
  expect_fails(own, hole, {.from = false, .to = true}, ENOMEM);
}

TEST(SlicedCopy, UnmappedMemoryOfTheApplicationIsAnError) {
  for (const auto how : {test::LentMemory::How::unmapped, test::LentMemory::How::truncated}) {
    const test::LentMemory lent(kBytes);
    lent.take_away(how, kSlice);
    std::vector<std::byte> own = pattern(kBytes, 3);
    for (const bool out : {false, true}) {
      SlicedCopy copy(out ? std::span<const std::byte>(own) : lent.bytes(),
                      out ? lent.bytes() : std::span(own), {}, true);
      const auto first = copy.poll();
      ASSERT_TRUE(first);
      EXPECT_FALSE(*first);
      const auto second = copy.poll();
      ASSERT_FALSE(second);
      EXPECT_EQ(second.error().hint, Hint::memory_gone) << describe(second.error());
    }
  }
}

TEST(SlicedCopy, TheLastPageMayBeTheMissingOne) {
  const File file(2 * kSlice - 4096);
  std::vector<std::byte> target(kBytes);
  SlicedCopy copy(file.bytes().subspan(1, 2 * kSlice - 1), std::span(target).first(2 * kSlice - 1),
                  {.from = true, .to = false});
  const auto first = copy.poll();
  ASSERT_TRUE(first);
  EXPECT_FALSE(*first);
  EXPECT_FALSE(copy.poll());
}

}  // namespace
}  // namespace hbmwire::memory::host

// SPDX-License-Identifier: MIT
#include "memory/host/address_watch.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "hbmwire/fd.hpp"

#include "memory/host/event_ring.hpp"
#include "memory/host/userfaultfd.hpp"
#include "watched_memory.hpp"

namespace hbmwire::memory::host {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

class AddressWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    auto watch = AddressWatch::get();
    ASSERT_TRUE(watch) << describe(watch.error());
    watch_ = *watch;
    begin();
  }

  /// From here on, changes are expected: told() and has_risen() leave out earlier ones.
  void begin() {
    cursor_ = watch_->now();
    before_ = watch_->changed();
  }

  std::vector<AddressRange> told() { return taken(*watch_, cursor_); }

  [[nodiscard]] bool has_risen() const { return watch_->changed() > before_; }

  std::shared_ptr<AddressWatch> watch_;
  AddressWatch::Cursor cursor_;
  std::uint64_t before_ = 0;
};

TEST_F(AddressWatchTest, ReportsUnmappedPages) {
  for (const int kind : {kPrivate, kShared}) {
    const MappedPages pages(3, kind);
    ASSERT_TRUE(watch_->watch(pages.all()));
    begin();
    ASSERT_EQ(unmap(pages.all()), 0);
    EXPECT_TRUE(has_risen());
    EXPECT_THAT(told(), ElementsAre(pages.all()));
    EXPECT_EQ(watch_->changed(), cursor_.settled);
    EXPECT_THAT(told(), IsEmpty()) << "a change is reported once";
    watch_->unwatch(pages.all());
  }
}

TEST_F(AddressWatchTest, ReportsUnmappedPagesOfAMemfd) {
  const Fd file(::memfd_create("watched", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), kPage), 0);
  void* const memory = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  const auto address = reinterpret_cast<std::uint64_t>(memory);
  const AddressRange range{address, address + kPage};
  ASSERT_TRUE(watch_->watch(range));
  begin();
  ASSERT_EQ(unmap(range), 0);
  EXPECT_TRUE(has_risen());
  EXPECT_THAT(told(), ElementsAre(range));
  watch_->unwatch(range);
}

TEST_F(AddressWatchTest, TellsWhichPagesOfARangeWereUnmapped) {
  const MappedPages pages(5);
  ASSERT_TRUE(watch_->watch(pages.all()));
  begin();
  ASSERT_EQ(unmap(pages.part(2, 1)), 0);
  EXPECT_THAT(told(), ElementsAre(pages.part(2, 1)));
  ASSERT_EQ(unmap(pages.all()), 0) << "the range includes the hole";
  EXPECT_THAT(told(), Contains(pages.all()));
  watch_->unwatch(pages.all());
}

TEST_F(AddressWatchTest, TellsOfSeveralRangesThatOneCallUnmaps) {
  const MappedPages pages(8);
  ASSERT_TRUE(watch_->watch(pages.part(1, 2)));
  ASSERT_TRUE(watch_->watch(pages.part(5, 1)));
  begin();
  ASSERT_EQ(unmap(pages.all()), 0);
  EXPECT_THAT(told(), Contains(pages.all()));
  watch_->unwatch(pages.part(1, 2));
  watch_->unwatch(pages.part(5, 1));
}

TEST_F(AddressWatchTest, WatchesThePagesOfAnyBytes) {
  const MappedPages pages(3);
  const AddressRange bytes{pages.address() + kPage + 10, pages.address() + kPage + 20};
  ASSERT_TRUE(watch_->watch(bytes));
  EXPECT_FALSE(is_watched(pages.address()));
  EXPECT_TRUE(is_watched(pages.address() + kPage));
  EXPECT_FALSE(is_watched(pages.address() + 2 * kPage));
  watch_->unwatch(bytes);
  EXPECT_FALSE(is_watched(pages.address() + kPage));
}

TEST_F(AddressWatchTest, ReportsPagesThatAMappingReplaces) {
  const MappedPages pages(4);
  ASSERT_TRUE(watch_->watch(pages.all()));
  begin();
  ASSERT_NE(MappedPages::map(pages.part(1, 2).begin, 2, kPrivate | MAP_FIXED), 0U);
  EXPECT_TRUE(has_risen());
  EXPECT_THAT(told(), ElementsAre(pages.part(1, 2)));
  watch_->unwatch(pages.all());
}

TEST_F(AddressWatchTest, ReportsPagesThatAnMremapCutsOff) {
  const MappedPages pages(4);
  ASSERT_TRUE(watch_->watch(pages.all()));
  begin();
  ASSERT_NE(::mremap(pointer(pages.address()), 4 * kPage, kPage, 0), MAP_FAILED);
  EXPECT_TRUE(has_risen());
  EXPECT_THAT(told(), ElementsAre(pages.part(1, 3)));
  watch_->unwatch(pages.all());
}

TEST_F(AddressWatchTest, ReportsMovedPagesAndDoesNotFollowThem) {
  for (const int kind : {kPrivate, kShared}) {
    const MappedPages pages(2, kind);
    const MappedPages target(3, kind);
    pages.fill(1);
    ASSERT_TRUE(watch_->watch(pages.all()));
    ASSERT_TRUE(watch_->watch(target.part(2, 1))) << "beside the target; must stay watched";
    begin();
    ASSERT_NE(::mremap(pointer(pages.address()), 2 * kPage, 2 * kPage,
                       MREMAP_MAYMOVE | MREMAP_FIXED, pointer(target.address())),
              MAP_FAILED);
    EXPECT_TRUE(has_risen());
    EXPECT_THAT(told(), Contains(pages.all()));
    EXPECT_TRUE(comes_true([&] { return !is_watched(target.address()); }));
    EXPECT_TRUE(is_watched(target.part(2, 1).begin));
    watch_->unwatch(pages.all());
    watch_->unwatch(target.part(2, 1));
  }
}

TEST_F(AddressWatchTest, ReportsPagesThatAMoveReplaces) {
  const MappedPages pages(2);
  const MappedPages target(2);
  ASSERT_TRUE(watch_->watch(target.all()));
  begin();
  ASSERT_NE(::mremap(pointer(pages.address()), 2 * kPage, 2 * kPage, MREMAP_MAYMOVE | MREMAP_FIXED,
                     pointer(target.address())),
            MAP_FAILED);
  EXPECT_TRUE(has_risen());
  EXPECT_THAT(told(), Contains(target.all()));
  watch_->unwatch(target.all());
}

TEST_F(AddressWatchTest, ReportsAMappingThatGrowsAndMoves) {
  const MappedPages pages(2);
  // A mapping behind the first page keeps that page from growing in place.
  MappedPages::map(pages.part(1, 1).begin, 1, kPrivate | MAP_FIXED);
  const AddressRange first = pages.part(0, 1);
  // Another protection keeps the kernel from joining the two mappings.
  ASSERT_EQ(::mprotect(pointer(pages.part(1, 1).begin), kPage, PROT_READ), 0);
  ASSERT_TRUE(watch_->watch(first));
  begin();
  void* const moved = ::mremap(pointer(first.begin), kPage, 8 * kPage, MREMAP_MAYMOVE);
  ASSERT_NE(moved, MAP_FAILED);
  EXPECT_TRUE(has_risen());
  EXPECT_THAT(told(), Contains(first));
  watch_->unwatch(first);
  ::munmap(moved, 8 * kPage);
}

TEST_F(AddressWatchTest, TellsOfDiscardedPages) {
  struct Way {
    int kind;
    int advice;
  };

  const std::array ways{Way{kPrivate, MADV_DONTNEED}, Way{kPrivate, MADV_FREE},
                        Way{kShared, MADV_DONTNEED}, Way{kShared, MADV_REMOVE}};
  std::vector<std::unique_ptr<MappedPages>> kept;  // keeps addresses from being used twice
  for (const Way way : ways) {
    const MappedPages& pages = *kept.emplace_back(std::make_unique<MappedPages>(4, way.kind));
    pages.fill(7);
    ASSERT_TRUE(watch_->watch(pages.all()));
    EXPECT_FALSE(watch_->being_discarded(pages.all()));
    begin();
    ASSERT_EQ(advise(pages.part(1, 2), way.advice), 0) << "advice " << way.advice;
    EXPECT_TRUE(has_risen()) << "advice " << way.advice;
    EXPECT_THAT(told(), ElementsAre(pages.part(1, 2)));
    EXPECT_TRUE(watch_->being_discarded(pages.all()));
    EXPECT_TRUE(watch_->being_discarded(pages.part(2, 1)));
    EXPECT_FALSE(watch_->being_discarded(pages.part(3, 1)));
    watch_->unwatch(pages.all());
  }
}

TEST_F(AddressWatchTest, TakesADiscardForDoneAfterASecond) {
  const MappedPages pages(1);
  ASSERT_TRUE(watch_->watch(pages.all()));
  begin();
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(advise(pages.all(), MADV_DONTNEED), 0);
  EXPECT_THAT(told(), ElementsAre(pages.all()));
  EXPECT_TRUE(comes_true([&] { return !watch_->being_discarded(pages.all()); }));
  EXPECT_GT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  watch_->unwatch(pages.all());
}

TEST_F(AddressWatchTest, TellsOfTheHeapsEndWhenItShrinks) {
  constexpr std::uint64_t kBytes = 16 * kPage;
  void* const end = ::sbrk(0);
  const AddressRange range{reinterpret_cast<std::uint64_t>(end),
                           reinterpret_cast<std::uint64_t>(end) + kBytes};
  ASSERT_NE(::sbrk(kBytes), pointer(~std::uint64_t{0}));
  ASSERT_TRUE(watch_->watch(range));
  begin();
  ASSERT_EQ(::sbrk(0), pointer(range.end)) << "the heap's end has moved meanwhile";
  ASSERT_EQ(::brk(end), 0);
  EXPECT_TRUE(has_risen());
  ASSERT_FALSE(told().empty());
  watch_->unwatch(range);
}

TEST_F(AddressWatchTest, IgnoresCallsThatKeepThePages) {
  const MappedPages pages(4);
  ASSERT_TRUE(watch_->watch(pages.part(1, 2)));
  begin();
  pages.fill(1);
  ASSERT_EQ(::mprotect(pointer(pages.address()), 4 * kPage, PROT_READ), 0);
  ASSERT_EQ(advise(pages.all(), MADV_WILLNEED), 0);
  ASSERT_EQ(unmap(pages.part(0, 1)), 0) << "a page beside the watched ones";
  ASSERT_EQ(advise(pages.part(3, 1), MADV_DONTNEED), 0) << "a page beside the watched ones";
  EXPECT_FALSE(has_risen());
  watch_->unwatch(pages.part(1, 2));
}

TEST_F(AddressWatchTest, TrapsNoAccess) {
  for (const int kind : {kPrivate, kShared}) {
    const MappedPages pages(2, kind);
    ASSERT_TRUE(watch_->watch(pages.all()));
    begin();
    EXPECT_EQ(*static_cast<volatile char*>(pointer(pages.address())), 0);
    pages.fill(3);
    EXPECT_EQ(*static_cast<volatile char*>(pointer(pages.address())), 3);
    EXPECT_FALSE(has_risen());
    watch_->unwatch(pages.all());
  }
}

TEST_F(AddressWatchTest, CountsOverlappingRanges) {
  const MappedPages pages(6);
  ASSERT_TRUE(watch_->watch(pages.part(0, 4)));
  ASSERT_TRUE(watch_->watch(pages.part(2, 4)));
  ASSERT_TRUE(watch_->watch(pages.part(2, 4)));
  watch_->unwatch(pages.part(0, 4));
  EXPECT_FALSE(is_watched(pages.part(1, 1).begin));
  EXPECT_TRUE(is_watched(pages.part(2, 1).begin));
  watch_->unwatch(pages.part(2, 4));
  EXPECT_TRUE(is_watched(pages.part(2, 1).begin));
  EXPECT_TRUE(is_watched(pages.part(5, 1).begin));
  watch_->unwatch(pages.part(2, 4));
  begin();
  ASSERT_EQ(unmap(pages.all()), 0);
  EXPECT_FALSE(has_risen());
}

TEST_F(AddressWatchTest, WatchesNewPagesAtAnAddressThatIsWatched) {
  const MappedPages pages(2);
  ASSERT_TRUE(watch_->watch(pages.all()));
  pages.renew();
  EXPECT_FALSE(is_watched(pages.address()));
  ASSERT_TRUE(watch_->watch(pages.all()));
  watch_->unwatch(pages.all());
  EXPECT_TRUE(is_watched(pages.address())) << "watched twice, given back once";
  watch_->unwatch(pages.all());
  EXPECT_FALSE(is_watched(pages.address()));
}

Fd some_file() {
  std::string path = testing::TempDir() + "hbmwire-watch-XXXXXX";
  Fd file(::mkstemp(path.data()));
  ::unlink(path.c_str());
  EXPECT_EQ(::ftruncate(file.get(), kPage), 0);
  return file;
}

TEST_F(AddressWatchTest, RefusesAFilesPagesAndWatchesNoneOfTheRange) {
  const MappedPages pages(3);
  const Fd file = some_file();
  ASSERT_NE(::mmap(pointer(pages.part(1, 1).begin), kPage, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_FIXED, file.get(), 0),
            MAP_FAILED);
  const auto refused = watch_->watch(pages.all());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::not_supported);
  EXPECT_EQ(refused.error().hint, Hint::memory_not_watched);
  for (std::uint64_t i = 0; i != 3; ++i) EXPECT_FALSE(is_watched(pages.part(i, 1).begin));
}

TEST_F(AddressWatchTest, RefusesARangeWithAHoleAndWatchesNoneOfIt) {
  const MappedPages pages(4);
  ASSERT_EQ(unmap(pages.part(1, 1)), 0);
  ASSERT_TRUE(watch_->watch(pages.part(3, 1)));
  EXPECT_FALSE(watch_->watch(pages.all()));
  EXPECT_FALSE(watch_->watch(pages.part(1, 1)));
  EXPECT_FALSE(is_watched(pages.address()));
  EXPECT_FALSE(is_watched(pages.part(2, 1).begin));
  EXPECT_TRUE(is_watched(pages.part(3, 1).begin)) << "it was watched before the refused calls";
  watch_->unwatch(pages.part(3, 1));
}

TEST_F(AddressWatchTest, RefusesMemoryOfAnotherUserfaultfd) {
  const MappedPages pages(1);
  auto other = Userfaultfd::open();
  ASSERT_TRUE(other) << describe(other.error());
  ASSERT_EQ(other->watch(pages.all()), 0);
  const auto refused = watch_->watch(pages.all());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::busy);
}

TEST_F(AddressWatchTest, RefusesInvalidRanges) {
  for (const AddressRange range :
       {AddressRange{}, AddressRange{kPage, kPage}, AddressRange{2 * kPage, kPage},
        AddressRange{~std::uint64_t{0} - kPage, ~std::uint64_t{0}}, kAllAddresses})
    EXPECT_FALSE(watch_->watch(range)) << range.begin << " " << range.end;
}

TEST_F(AddressWatchTest, KeepsTheOtherPagesWhenAnotherMappingLiesBetween) {
  const MappedPages pages(3);
  ASSERT_TRUE(watch_->watch(pages.all()));
  const Fd file = some_file();
  ASSERT_NE(::mmap(pointer(pages.part(1, 1).begin), kPage, PROT_READ, MAP_PRIVATE | MAP_FIXED,
                   file.get(), 0),
            MAP_FAILED);
  EXPECT_TRUE(is_watched(pages.address()));
  watch_->unwatch(pages.all());
  EXPECT_FALSE(is_watched(pages.address()));
  EXPECT_FALSE(is_watched(pages.part(2, 1).begin));
}

// The machine's pool of huge pages may be empty, because the test touches none of them.
TEST_F(AddressWatchTest, WatchesHugePagesAsAWhole) {
  constexpr std::uint64_t kHuge = std::uint64_t{2} << 20U;
  // 21 << 26 is MAP_HUGE_2MB.
  const std::uint64_t address =
      MappedPages::map(0, 2 * kHuge / kPage, kPrivate | MAP_HUGETLB | MAP_NORESERVE | (21 << 26));
  ASSERT_NE(address, 0U) << "errno " << errno;
  const AddressRange part{address + 100 * kPage, address + 200 * kPage};
  // One byte of the second huge page.
  const AddressRange other{address + 150 * kPage, address + kHuge + 1};
  ASSERT_TRUE(watch_->watch(part));
  ASSERT_TRUE(watch_->watch(other));
  EXPECT_TRUE(is_watched(address));
  EXPECT_TRUE(is_watched(address + kHuge));
  watch_->unwatch(other);
  EXPECT_TRUE(is_watched(address));
  EXPECT_FALSE(is_watched(address + kHuge));
  begin();
  ASSERT_EQ(unmap({address, address + 2 * kHuge}), 0);
  EXPECT_TRUE(has_risen());
  EXPECT_THAT(told(), Contains(AddressRange{address, address + 2 * kHuge}));
  watch_->unwatch(part);
}

TEST_F(AddressWatchTest, ReportsAnOverflow) {
  const MappedPages pages(1);
  ASSERT_TRUE(watch_->watch(pages.all()));
  begin();
  // More changes than the ring keeps.
  for (int i = 0; i != 5000; ++i) ASSERT_EQ(advise(pages.all(), MADV_DONTNEED), 0);
  EXPECT_THAT(told(), ElementsAre(kAllAddresses));
  ASSERT_EQ(advise(pages.all(), MADV_DONTNEED), 0);
  EXPECT_THAT(told(), ElementsAre(pages.all()));
  const MappedPages others(1);
  EXPECT_TRUE(watch_->being_discarded(others.all()))
      << "the overflow has lost which pages they were";
  watch_->unwatch(pages.all());
}

TEST_F(AddressWatchTest, TellsEachCursorOfEveryChange) {
  const MappedPages pages(1);
  ASSERT_TRUE(watch_->watch(pages.all()));
  AddressWatch::Cursor one = watch_->now();
  ASSERT_EQ(advise(pages.all(), MADV_DONTNEED), 0);
  EXPECT_THAT(taken(*watch_, one), ElementsAre(pages.all()));
  AddressWatch::Cursor two = watch_->now();
  EXPECT_THAT(taken(*watch_, two), IsEmpty()) << "the change was before this cursor";
  ASSERT_EQ(advise(pages.all(), MADV_DONTNEED), 0);
  EXPECT_THAT(taken(*watch_, two), ElementsAre(pages.all()));
  EXPECT_THAT(taken(*watch_, one), ElementsAre(pages.all()));
  watch_->unwatch(pages.all());
}

TEST(EventRing, TellsOfASlotThatWasReused) {
  EventRing<4> ring;
  for (std::uint64_t i = 0; i != 6; ++i) ring.push({{i, i + 1}, 10 * i});
  EXPECT_EQ(ring.end(), 6U);
  EXPECT_FALSE(ring.at(1));
  for (std::uint64_t i = 2; i != 6; ++i) {
    ASSERT_TRUE(ring.at(i));
    EXPECT_EQ(ring.at(i)->range, (AddressRange{i, i + 1}));
    EXPECT_EQ(ring.at(i)->detail, 10 * i);
  }
}

TEST(AddressWatchOfTheProcess, IsOneAndGoesWithItsLastHolder) {
  const auto count = [](const char* folder) {
    return std::distance(std::filesystem::directory_iterator(folder), {});
  };
  std::thread([] {}).join();  // ThreadSanitizer starts a thread together with the first one
  const auto descriptors = count("/proc/self/fd");
  const auto threads = count("/proc/self/task");
  for (int round = 0; round != 20; ++round) {
    auto one = AddressWatch::get();
    auto two = AddressWatch::get();
    ASSERT_TRUE(one) << describe(one.error());
    EXPECT_EQ(*one, *two);
    EXPECT_EQ(count("/proc/self/task"), threads + 2);
    const MappedPages pages(1);
    ASSERT_TRUE((*one)->watch(pages.all()));
    one = tl::make_unexpected(Error{});
    two = tl::make_unexpected(Error{});
    EXPECT_FALSE(is_watched(pages.address())) << "though unwatch() was not called";
    EXPECT_EQ(count("/proc/self/fd"), descriptors);
    // A joined thread may be listed for a moment.
    EXPECT_TRUE(comes_true([&] { return count("/proc/self/task") == threads; }));
  }
}

// Daemons close all descriptors when they start, including those of libraries.
TEST(AddressWatchOfTheProcess, SaysThatAllIsGoneWhenItsDescriptorIsClosed) {
  auto got = AddressWatch::get();
  ASSERT_TRUE(got) << describe(got.error());
  AddressWatch& watch = **got;
  const MappedPages pages(1);
  ASSERT_TRUE(watch.watch(pages.all()));
  AddressWatch::Cursor cursor = watch.now();
  // Closes the watch's descriptor behind its back.
  for (int fd = 3; fd != 100; ++fd) {
    std::error_code none;
    const auto target =
        std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), none).string();
    if (target == "anon_inode:[userfaultfd]") ::close(fd);
  }
  ASSERT_EQ(unmap(pages.all()), 0) << "the call must wake the reader, and not wait";
  EXPECT_TRUE(comes_true([&] { return watch.changed() != cursor.settled; }));
  EXPECT_THAT(taken(watch, cursor), Contains(kAllAddresses));
  EXPECT_FALSE(watch.watch(pages.all()));
  EXPECT_TRUE(watch.being_discarded(pages.all()));
  EXPECT_TRUE(watch.unmapping_under_way());
}

}  // namespace
}  // namespace hbmwire::memory::host

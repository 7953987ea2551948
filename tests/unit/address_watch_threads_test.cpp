// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "memory/host/address_watch.hpp"
#include "memory/host/userfaultfd.hpp"
#include "watched_memory.hpp"

namespace hbmwire::memory::host {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kRounds = 300;
#else
constexpr int kRounds = 3000;
#endif
constexpr int kThreads = 8;

std::shared_ptr<AddressWatch> process_watch() {
  auto watch = AddressWatch::get();
  EXPECT_TRUE(watch) << describe(watch.error());
  return watch ? *watch : nullptr;
}

void in_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::jthread> threads;
  for (int i = 0; i != count; ++i) threads.emplace_back(body, i);
}

/// Makes one of the calls that replace pages. Returns the changed range.
AddressRange change(MappedPages& pages, int way) {
  bool done = false;
  AddressRange changed = pages.all();
  switch (way % 5) {
    case 0:
      done = pages.unmap() == 0;
      break;
    case 1:
      pages.renew();
      done = true;
      break;
    case 2:
      done = advise(pages.all(), MADV_DONTNEED) == 0;
      break;
    case 3:
      done = pages.move();
      break;
    default:
      changed.begin += kPage;
      done = pages.shrink();
      break;
  }
  if (!done) std::abort();
  return changed;
}

bool covered(const std::vector<AddressRange>& ranges, AddressRange range) {
  for (const AddressRange& one : ranges)
    if (one.begin <= range.begin && range.end <= one.end) return true;
  return false;
}

// The basic guarantee: when the call has returned, changed() has risen, whatever other threads do,
// and take() contains the change.
TEST(AddressWatchThreads, FindTheCountRaisedWhenTheirCallHasReturned) {
  const auto watch = process_watch();
  ASSERT_TRUE(watch);
  std::atomic<int> late{0};
  std::atomic<int> missing{0};
  in_threads(kThreads, [&](int thread) {
    for (int round = 0; round != kRounds; ++round) {
      MappedPages pages(4);
      if (!watch->watch(pages.all())) std::abort();
      AddressWatch::Cursor cursor = watch->now();
      const std::uint64_t before = watch->changed();
      const AddressRange changed = change(pages, thread + round);
      if (watch->changed() == before || watch->changed() == cursor.settled) ++late;
      if (!covered(taken(*watch, cursor), changed)) ++missing;
      watch->unwatch(pages.all());
    }
  });
  EXPECT_EQ(late, 0);
  EXPECT_EQ(missing, 0);
}

// Another thread unmaps this thread's pages.
TEST(AddressWatchThreads, FindWhatAnotherThreadUnmapped) {
  const auto watch = process_watch();
  ASSERT_TRUE(watch);
  const MappedPages pages(4);
  std::atomic<std::uint64_t> asked{0};
  std::atomic<std::uint64_t> done{0};
  std::jthread other([&] {
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      while (asked.load() != round) std::this_thread::yield();
      unmap(pages.all());
      done.store(round);
    }
  });
  int late = 0;
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    pages.renew();
    ASSERT_TRUE(watch->watch(pages.all()));
    AddressWatch::Cursor cursor = watch->now();
    asked.store(round);
    while (done.load() != round) std::this_thread::yield();
    if (watch->changed() == cursor.settled) ++late;
    ASSERT_TRUE(covered(taken(*watch, cursor), pages.all()));
    watch->unwatch(pages.all());
  }
  EXPECT_EQ(late, 0);
}

// Several threads take changes, each with its own cursor, and the ring overflows sometimes. Each
// range is reported, or it is reported that everything may have changed.
TEST(AddressWatchThreads, MissNothingHoweverLateTheyLook) {
  const auto watch = process_watch();
  ASSERT_TRUE(watch);
  constexpr std::uint64_t kMany = 512;
  const MappedPages pages(kMany);
  ASSERT_TRUE(watch->watch(pages.all()));
  std::atomic<bool> over{false};
  std::vector<std::vector<bool>> seen(3, std::vector<bool>(kMany));
  std::vector<std::jthread> lookers;
  std::vector<AddressWatch::Cursor> cursors(seen.size(), watch->now());
  for (std::size_t i = 0; i != seen.size(); ++i)
    lookers.emplace_back([&, i] {
      for (bool last = false; !last;) {
        last = over.load();
        watch->take(cursors[i], [&](AddressRange range) {
          const AddressRange part = common(range, pages.all());
          for (std::uint64_t at = part.begin; at != part.end; at += kPage)
            seen[i][(at - pages.address()) / kPage] = true;
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(20 * i));
      }
    });
  for (int round = 0; round != 20; ++round)
    for (std::uint64_t page = 0; page != kMany; ++page) advise(pages.part(page, 1), MADV_DONTNEED);
  over = true;
  lookers.clear();
  for (const auto& one : seen) EXPECT_THAT(one, testing::Each(true));
  watch->unwatch(pages.all());
}

// malloc(3) unmaps, trims and discards while it holds its own locks. The reader must not wait for
// these.
TEST(AddressWatchThreads, NeverWaitForMallocWhoseMemoryIsWatched) {
  const auto watch = process_watch();
  ASSERT_TRUE(watch);
  std::atomic<std::uint64_t> watched{0};
  // malloc(3) maps a block of this size, and free(3) unmaps it.
  const auto subscription = watch->subscribe([] { const std::vector<char> some(300000); });
  in_threads(kThreads, [&](int thread) {
    std::minstd_rand random(static_cast<unsigned>(thread) + 1);
    AddressWatch::Cursor cursor = watch->now();
    for (int round = 0; round != kRounds; ++round) {
      // All sizes that malloc treats differently.
      const std::size_t bytes = std::size_t{1} << (4 + random() % 17);
      void* const block = std::malloc(bytes);
      const auto address = reinterpret_cast<std::uint64_t>(block);
      const AddressRange range{address, address + bytes};
      const bool is = static_cast<bool>(watch->watch(range));
      *static_cast<volatile char*>(block) = 1;
      void* const more = std::realloc(block, bytes * 2);
      std::free(more);
      if (thread == 0) ::malloc_trim(0);
      (void)taken(*watch, cursor);
      if (is) watch->unwatch(range);
      watched += is ? 1 : 0;
    }
  });
  EXPECT_GT(watched, 0U);
}

TEST(AddressWatchStrict, SeesAnUnmappingBeforeItsEventIsRead) {
  auto userfaultfd = Userfaultfd::open();
  ASSERT_TRUE(userfaultfd) << describe(userfaultfd.error());
  const MappedPages pages(1);
  ASSERT_EQ(userfaultfd->watch(pages.all()), 0);
  EXPECT_FALSE(userfaultfd->change_under_way());
  std::jthread unmapping([&] { unmap(pages.all()); });
  // True as soon as other threads can map the address.
  EXPECT_TRUE(comes_true(
      [&] { return MappedPages::map(pages.address(), 1, kPrivate | MAP_FIXED_NOREPLACE); }));
  EXPECT_TRUE(userfaultfd->change_under_way()) << "its event is not read yet";
  EXPECT_TRUE(
      comes_true([&] { return userfaultfd->read().kind == Userfaultfd::Event::Kind::gone; }));
  unmapping.join();
  EXPECT_FALSE(userfaultfd->change_under_way());
}

// A thread gets an address that another thread is unmapping. The look-up must notice, by one call
// or the other.
TEST(AddressWatchStrict, NoticesThatAnAddressHadAnotherOwner) {
  const auto watch = process_watch();
  ASSERT_TRUE(watch);
  constexpr int kRaces = kRounds / 10;  // each race ends when both threads have had a CPU
  const MappedPages pages(1);
  std::atomic<int> round_of_both{0};
  std::jthread other([&] {
    for (int round = 1; round <= kRaces; ++round) {
      while (round_of_both.load() != round) std::this_thread::yield();
      unmap(pages.all());
      round_of_both.store(-round);
    }
  });
  int unseen = 0;
  for (int round = 1; round <= kRaces; ++round) {
    pages.renew();
    ASSERT_TRUE(watch->watch(pages.all()));
    const std::uint64_t settled = watch->now().settled;
    round_of_both.store(round);
    while (MappedPages::map(pages.address(), 1, kPrivate | MAP_FIXED_NOREPLACE) == 0) {
    }
    const bool under_way = watch->unmapping_under_way();
    if (!under_way && watch->changed() == settled) ++unseen;
    while (round_of_both.load() != -round) std::this_thread::yield();
    watch->unwatch(pages.all());
  }
  EXPECT_EQ(unseen, 0);
}

TEST(AddressWatchSubscription, IsCalledSoonButNotForEachChange) {
  const auto watch = process_watch();
  ASSERT_TRUE(watch);
  const MappedPages pages(1);
  ASSERT_TRUE(watch->watch(pages.all()));
  std::atomic<int> calls{0};
  auto subscription = watch->subscribe([&] { ++calls; });
  EXPECT_EQ(calls, 0);
  advise(pages.all(), MADV_DONTNEED);
  EXPECT_TRUE(comes_true([&] { return calls == 1; }));
  constexpr int kMany = 2000;
  for (int i = 0; i != kMany; ++i) advise(pages.all(), MADV_DONTNEED);
  EXPECT_TRUE(comes_true([&] { return calls > 1; }));
  EXPECT_LT(calls, kMany / 2);
  subscription.reset();
  const int at_end = calls;
  auto later = watch->subscribe([&] { calls += 1000000; });
  advise(pages.all(), MADV_DONTNEED);
  EXPECT_TRUE(comes_true([&] { return calls >= 1000000; }));
  EXPECT_EQ(calls % 1000000, at_end) << "an ended subscription is not called";
  watch->unwatch(pages.all());
}

TEST(AddressWatchSubscription, EndsAfterTheCallbackThatIsRunning) {
  const auto watch = process_watch();
  ASSERT_TRUE(watch);
  const MappedPages pages(1);
  ASSERT_TRUE(watch->watch(pages.all()));
  std::atomic<bool> begun{false};
  std::atomic<bool> ended{false};
  auto subscription = watch->subscribe([&] {
    begun = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ended = true;
  });
  advise(pages.all(), MADV_DONTNEED);
  EXPECT_TRUE(comes_true([&] { return begun.load(); }));
  subscription.reset();
  EXPECT_TRUE(ended);
  watch->unwatch(pages.all());
}

TEST(AddressWatchSubscription, MayEndItselfAndReleaseWhatItHolds) {
  const auto watch = process_watch();
  ASSERT_TRUE(watch);
  const MappedPages pages(1);
  ASSERT_TRUE(watch->watch(pages.all()));
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> remains = held;
  std::mutex mutex;
  AddressWatch::Subscription subscription;
  std::atomic<int> calls{0};
  {
    const std::lock_guard lock(mutex);
    subscription = watch->subscribe([&, held = std::move(held)] {
      const std::lock_guard own(mutex);
      subscription.reset();
      ++calls;
    });
  }
  advise(pages.all(), MADV_DONTNEED);
  EXPECT_TRUE(comes_true([&] { return calls == 1; }));
  EXPECT_TRUE(comes_true([&] { return remains.expired(); }));
  advise(pages.all(), MADV_DONTNEED);
  auto last = watch->subscribe([&] { calls += 10; });
  advise(pages.all(), MADV_DONTNEED);
  EXPECT_TRUE(comes_true([&] { return calls >= 10; }));
  EXPECT_EQ(calls % 10, 1);
  watch->unwatch(pages.all());
}

// Happens when the call that sweeps a cache is its last user.
TEST(AddressWatchSubscription, MayDropTheWatchItself) {
  struct User {
    std::mutex mutex;
    std::shared_ptr<AddressWatch> watch;
    AddressWatch::Subscription subscription;
    std::atomic<bool> over{false};
  };

  for (int round = 0; round != 20; ++round) {
    const auto user = std::make_shared<User>();
    const MappedPages pages(1);
    std::weak_ptr<AddressWatch> remains;
    {
      const std::lock_guard lock(user->mutex);
      user->watch = process_watch();
      ASSERT_TRUE(user->watch);
      remains = user->watch;
      ASSERT_TRUE(user->watch->watch(pages.all()));
      user->subscription = user->watch->subscribe([user] {
        const std::lock_guard lock_of_call(user->mutex);
        user->watch.reset();
        user->subscription.reset();
        user->over = true;
      });
    }
    advise(pages.all(), MADV_DONTNEED);
    EXPECT_TRUE(comes_true([&] { return user->over.load(); }));
    EXPECT_TRUE(remains.expired());
    unmap(pages.all());
  }
}

// A thread that comes while the last user leaves gets a working object.
TEST(AddressWatchOfTheProcess, ComesAndGoesInManyThreads) {
  std::atomic<int> failed{0};
  in_threads(4, [&](int) {
    for (int round = 0; round != kRounds / 30; ++round) {
      const auto watch = AddressWatch::get();
      MappedPages pages(1);
      if (!watch || !(*watch)->watch(pages.all())) {
        ++failed;
        continue;
      }
      AddressWatch::Cursor cursor = (*watch)->now();
      if (pages.unmap() != 0) std::abort();
      if (!covered(taken(**watch, cursor), pages.all())) ++failed;
      (*watch)->unwatch(pages.all());
    }
  });
  EXPECT_EQ(failed, 0);
}

}  // namespace
}  // namespace hbmwire::memory::host

// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "memory/host/address_watch.hpp"
#include "memory/host/subscribers.hpp"
#include "watched_memory.hpp"

namespace hbmwire::memory::host {
namespace {

// With ThreadSanitizer, a child of a process with threads cannot start its own. With
// AddressSanitizer, a lock of the allocator may stay locked in such a child. In these builds only
// the other steps run.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kChildrenMayStartThreads = false;
#else
constexpr bool kChildrenMayStartThreads = true;
#endif

/// Runs `body` in a child by fork(2). Returns its exit code, 0 for success; -1 if it had to be
/// killed, -2 if another signal ended it. It cannot report more, since its gtest belongs to the
/// parent.
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  if (comes_true([&] { return ::waitpid(child, &status, WNOHANG) == child; }))
    return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return -1;
}

/// Returns 0 if this object watches memory, else the number of the step that failed.
int try_out(AddressWatch& watch) {
  MappedPages pages(1);
  AddressWatch::Cursor cursor = watch.now();
  if (!watch.watch(pages.all())) return 11;
  const std::uint64_t before = watch.changed();
  if (pages.unmap() != 0) return 14;
  if (watch.changed() == before) return 12;
  const auto ranges = taken(watch, cursor);
  watch.unwatch(pages.all());
  for (const AddressRange& range : ranges)
    if (range == pages.all()) return 0;
  return 13;
}

/// try_out() with an object that this process makes; 10 if there is none. 0 in builds whose
/// children may not start threads.
int try_own() {
  if (!kChildrenMayStartThreads) return 0;
  const auto watch = AddressWatch::get();
  return watch ? try_out(**watch) : 10;
}

int count_userfaultfds() {
  int count = 0;
  // 200 is more than the number of descriptors that this program opens.
  for (int fd = 0; fd != 200; ++fd) {
    std::array<char, 64> target{};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    if (::readlink(link.c_str(), target.data(), target.size() - 1) > 0 &&
        std::string(target.data()) == "anon_inode:[userfaultfd]")
      ++count;
  }
  return count;
}

class AddressWatchFork : public testing::Test {
 protected:
  void SetUp() override {
    auto watch = AddressWatch::get();
    ASSERT_TRUE(watch) << describe(watch.error());
    watch_ = *watch;
  }

  std::shared_ptr<AddressWatch> watch_;
};

TEST_F(AddressWatchFork, LeavesTheChildAnObjectThatSaysSo) {
  const MappedPages pages(2);
  ASSERT_TRUE(watch_->watch(pages.part(0, 1)));
  EXPECT_EQ(in_child([&] {
              AddressWatch::Cursor cursor = watch_->now();
              if (watch_->watch(pages.part(1, 1))) return 1;
              watch_->unwatch(pages.part(0, 1));
              if (taken(*watch_, cursor) != std::vector{kAllAddresses}) return 2;
              if (!watch_->being_discarded(pages.all())) return 3;
              if (!watch_->unmapping_under_way()) return 4;
              if (count_userfaultfds() != 0) return 5;
              if (unmap(pages.all()) != 0) return 6;
              watch_.reset();
              return 0;
            }),
            0);
  EXPECT_TRUE(is_watched(pages.address())) << "the parent's pages stay watched";
  EXPECT_EQ(try_out(*watch_), 0);
  watch_->unwatch(pages.part(0, 1));
}

TEST_F(AddressWatchFork, LetsTheChildMakeAWatchOfItsOwn) {
  EXPECT_EQ(in_child([&] { return try_own(); }), 0) << "its own object beside the parent's";
  EXPECT_EQ(in_child([&] {
              watch_.reset();
              return try_own();
            }),
            0)
      << "its own object after the parent's";
  EXPECT_EQ(in_child([&] { return in_child([&] { return try_own(); }); }), 0)
      << "an object of a grandchild";
  EXPECT_EQ(try_out(*watch_), 0);
}

// A child has a copy of the descriptor. The parent's close(2) must end the watching anyway.
TEST_F(AddressWatchFork, LetsTheParentEndWhileTheChildLives) {
  const MappedPages pages(1);
  ASSERT_TRUE(watch_->watch(pages.all()));
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(pipe[1]);
    char byte = 0;
    ::_exit(::read(pipe[0], &byte, 1) == 0 ? 0 : 1);  // waits until the parent closes its end
  }
  watch_.reset();
  EXPECT_FALSE(is_watched(pages.address()));
  EXPECT_EQ(unmap(pages.all()), 0) << "munmap(2) must not wait for a reader";
  ::close(pipe[1]);
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ::close(pipe[0]);
}

TEST_F(AddressWatchFork, LeavesNothingToWaitForInTheChild) {
  std::atomic<bool> begun{false};
  std::atomic<bool> may_end{false};
  auto subscription = watch_->subscribe([&] {
    begun = true;
    while (!may_end) std::this_thread::yield();
  });
  const MappedPages pages(1);
  ASSERT_TRUE(watch_->watch(pages.all()));
  advise(pages.all(), MADV_DONTNEED);
  ASSERT_TRUE(comes_true([&] { return begun.load(); }));
  EXPECT_EQ(in_child([&] {
              subscription.reset();  // of a call that continues only in the parent
              watch_.reset();
              return try_own();
            }),
            0);
  may_end = true;
  subscription.reset();
  watch_->unwatch(pages.all());
}

// The child is forked at any moment of the parent's threads: in the middle of a change, holding
// locks, or making the object.
TEST_F(AddressWatchFork, MeetsThreadsThatAreAtWork) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer's allocator may be locked in the child of a threaded process";
#endif
  std::atomic<bool> over{false};
  std::vector<std::jthread> threads;
  for (int i = 0; i != 3; ++i)
    threads.emplace_back([&, i] {
      while (!over) {
        if (i == 0) {
          (void)AddressWatch::get();
          continue;
        }
        (void)try_out(*watch_);
        const auto subscription = watch_->subscribe([] {});
      }
    });
  int result = 0;
  for (int round = 0; round != 50 && result == 0; ++round) {
    result = in_child([&] {
      watch_.reset();
      return try_own();
    });
  }
  EXPECT_EQ(result, 0);
  over = true;
}

/// Makes userfaultfd(2) fail with this errno from now on; with `device_too`, also opening the
/// device.
bool forbid_userfaultfd(unsigned error_number, bool device_too) {
  constexpr auto kNumber = static_cast<unsigned>(offsetof(seccomp_data, nr));
  constexpr auto kSecond = static_cast<unsigned>(offsetof(seccomp_data, args[1]));
  const auto load = [](unsigned from) { return sock_filter{BPF_LD | BPF_W | BPF_ABS, 0, 0, from}; };
  // A jump over `yes` instructions if the loaded number equals `what`, else over `no` instructions.
  const auto equal = [](unsigned what, unsigned char yes, unsigned char no) {
    return sock_filter{BPF_JMP | BPF_JEQ | BPF_K, yes, no, what};
  };
  const auto answer = [](unsigned what) { return sock_filter{BPF_RET | BPF_K, 0, 0, what}; };
  const unsigned device = device_too ? static_cast<unsigned>(USERFAULTFD_IOC_NEW) : ~0U;
  std::array<sock_filter, 7> filter{load(kNumber),
                                    equal(SYS_userfaultfd, 3, 0),
                                    equal(SYS_ioctl, 0, 3),
                                    load(kSecond),
                                    equal(device, 0, 1),  // the ioctl of /dev/userfaultfd, or none
                                    answer(SECCOMP_RET_ERRNO | error_number),
                                    answer(SECCOMP_RET_ALLOW)};
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(AddressWatchRefused, SaysWhatTheKernelLacksAndWhatToDo) {
  for (const int error_number : {ENOSYS, EPERM}) {
    EXPECT_EQ(
        in_child([&] {
          if (!forbid_userfaultfd(static_cast<unsigned>(error_number), true)) return 1;
          const auto watch = AddressWatch::get();
          if (watch) return 2;
          const Error& error = watch.error();
          if (error.number != error_number) return 3;
          if (error.code != (error_number == EPERM ? Errc::permission_denied : Errc::not_supported))
            return 4;
          if (describe(error).find("userfaultfd") == std::string::npos) return 5;
          if (describe(error).find("seccomp") == std::string::npos) return 6;
          return 0;
        }),
        0);
  }
}

// As in a container with a seccomp profile that forbids the call, but with access to the device.
TEST(AddressWatchRefused, TakesTheDeviceWhereTheCallIsForbidden) {
  // try_own() succeeds at once in builds whose children may not start threads.
  const bool may_open = !kChildrenMayStartThreads || ::access("/dev/userfaultfd", R_OK | W_OK) == 0;
  EXPECT_EQ(in_child([&] {
              if (!forbid_userfaultfd(EPERM, false)) return 1;
              const int result = try_own();
              return result == (may_open ? 0 : 10) ? 0 : 100 + result;
            }),
            0);
}

}  // namespace
}  // namespace hbmwire::memory::host

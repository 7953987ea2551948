// SPDX-License-Identifier: MIT
#include "base/memory_room.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "hbmwire/memory_domain.hpp"

namespace hbmwire {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

/// An invented /proc and /sys/fs/cgroup: 8 GiB, of which 6 are free.
class MadeUpMachine : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path() / "memory-room-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
    write_file(
        "proc/meminfo",
        "MemTotal:        8388608 kB\nMemFree:          100 kB\nMemAvailable:    6291456 kB\n"
        "SwapTotal:             0 kB\nSwapFree:              0 kB\n");
  }

  void TearDown() override { fs::remove_all(root_); }

  void write_file(const std::string& path, const std::string& content) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << content;
  }

  /// Writes the files of a cgroup of version 2.
  void write_cgroup_2(const std::string& folder, const std::string& limit, std::uint64_t used,
                      std::uint64_t cache = 0) const {
    const std::string at = "sys/fs/cgroup" + folder;
    write_file(at + "/memory.max", limit + "\n");
    write_file(at + "/memory.current", std::to_string(used) + "\n");
    write_file(at + "/memory.stat",
               "anon 4096\ninactive_file " + std::to_string(cache) + "\nactive_file 0\n");
  }

  void mount_cgroup_2(const std::string& root_of_mount = "/") const {
    write_file("proc/self/mountinfo",
               "24 1 0:22 / /proc rw - proc proc rw\n35 24 0:30 " + root_of_mount +
                   " /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
  }

  fs::path root_;
};

TEST_F(MadeUpMachine, HasAllFreeMemoryWithoutALimit) {
  const MemoryRoom room = memory_room(root_);
  EXPECT_EQ(room.bytes, 6144 * kMiB);
  EXPECT_EQ(room.limit_bytes, 8192 * kMiB);
  EXPECT_EQ(room.limit, Hint::host_memory_exhausted);
}

TEST_F(MadeUpMachine, TheCgroupOfVersion2LimitsIt) {
  mount_cgroup_2();
  write_file("proc/self/cgroup", "0::/user.slice/job\n");
  write_cgroup_2("/user.slice/job", std::to_string(300 * kMiB), 50 * kMiB);
  const MemoryRoom room = memory_room(root_);
  EXPECT_EQ(room.bytes, 250 * kMiB);
  EXPECT_EQ(room.limit_bytes, 300 * kMiB);
  EXPECT_EQ(room.limit, Hint::cgroup_memory_limit);
}

TEST_F(MadeUpMachine, ACgroupAboveLimitsItToo) {
  mount_cgroup_2();
  write_file("proc/self/cgroup", "0::/user.slice/job/step\n");
  write_cgroup_2("/user.slice", std::to_string(4096 * kMiB), 1024 * kMiB);
  write_cgroup_2("/user.slice/job", std::to_string(500 * kMiB), 400 * kMiB);
  write_cgroup_2("/user.slice/job/step", "max", 10 * kMiB);
  EXPECT_EQ(memory_room(root_).bytes, 100 * kMiB);
  write_cgroup_2("/user.slice", std::to_string(1024 * kMiB), 1000 * kMiB);
  EXPECT_EQ(memory_room(root_).bytes, 24 * kMiB);
}

TEST_F(MadeUpMachine, AContainerSeesItsCgroupAsTheRoot) {
  mount_cgroup_2();
  write_file("proc/self/cgroup", "0::/\n");
  write_cgroup_2("", std::to_string(200 * kMiB), 100 * kMiB);
  EXPECT_EQ(memory_room(root_).bytes, 100 * kMiB);
  // Without a namespace of cgroups, the path is the one outside, and the mount is a part of the
  // tree.
  mount_cgroup_2("/docker/4711");
  write_file("proc/self/cgroup", "0::/docker/4711\n");
  EXPECT_EQ(memory_room(root_).bytes, 100 * kMiB);
}

TEST_F(MadeUpMachine, PageCacheGivesWay) {
  mount_cgroup_2();
  write_file("proc/self/cgroup", "0::/job\n");
  write_cgroup_2("/job", std::to_string(300 * kMiB), 290 * kMiB, 240 * kMiB);
  EXPECT_EQ(memory_room(root_).bytes, 250 * kMiB);
}

TEST_F(MadeUpMachine, TheCgroupOfVersion1LimitsIt) {
  write_file("proc/self/mountinfo",
             "30 24 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
             "31 24 0:27 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n");
  write_file("proc/self/cgroup", "5:cpu:/elsewhere\n4:memory:/job\n0::/\n");
  write_file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write_file("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "314572800\n");
  write_file("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "104857600\n");
  write_file("sys/fs/cgroup/memory/job/memory.stat",
             "inactive_file 1\ntotal_inactive_file 20971520\ntotal_active_file 0\n");
  const MemoryRoom room = memory_room(root_);
  EXPECT_EQ(room.bytes, 220 * kMiB);
  EXPECT_EQ(room.limit, Hint::cgroup_memory_limit);
}

TEST_F(MadeUpMachine, UnreadableFilesLimitNothing) {
  fs::remove_all(root_);
  const MemoryRoom room = memory_room(root_);
  rlimit limit{};
  ::getrlimit(RLIMIT_AS, &limit);
  if (limit.rlim_cur != RLIM_INFINITY) GTEST_SKIP() << "this process's address space is limited";
  EXPECT_EQ(room.limit, Hint::none);
}

TEST_F(MadeUpMachine, BrokenFilesLimitNothing) {
  for (const char* text : {"", "\n", "0::\n", "x", ":::", "0::/no/such/folder\n"}) {
    mount_cgroup_2();
    write_file("proc/self/cgroup", text);
    EXPECT_EQ(memory_room(root_).bytes, 6144 * kMiB) << text;
  }
  write_file("proc/self/mountinfo", "24\n- cgroup2\n1 2 3 / - cgroup2 x rw\n");
  EXPECT_EQ(memory_room(root_).bytes, 6144 * kMiB);
}

/// Runs `body` in a process whose address space may grow by only `bytes`. Returns its exit code.
template <class Body>
int in_little_address_space(std::uint64_t bytes, Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t all = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) + bytes;
    const rlimit limit{all, all};
    ::setrlimit(RLIMIT_AS, &limit);
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#ifndef __SANITIZE_ADDRESS__
TEST(MemoryHint, NamesTheLimitThatTheProcessHasReached) {
  EXPECT_EQ(in_little_address_space(32 * kMiB,
                                    [] {
                                      const Hint hint =
                                          system_error(Stage::allocate, "mmap", ENOMEM).hint;
                                      return hint == Hint::address_space_limit ? 0 : 1;
                                    }),
            0);
  // A driver may have needed more locked memory than these 4096 bytes, so its limit is named. For
  // root, locked memory is unlimited.
  rlimit locks{};
  ::getrlimit(RLIMIT_MEMLOCK, &locks);
  const bool limited = ::geteuid() != 0 && locks.rlim_cur != RLIM_INFINITY;
  const Hint expected = limited ? Hint::memlock_limit : Hint::address_space_limit;
  EXPECT_EQ(in_little_address_space(
                4096 * kMiB, [=] { return memory_hint(Memory::locked, 4096) == expected ? 0 : 1; }),
            0);
}
#endif

}  // namespace
}  // namespace hbmwire

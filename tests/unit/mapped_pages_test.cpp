// SPDX-License-Identifier: MIT
#include "memory/host/mapped_pages.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <vector>

#include "tests/support/lent_memory.hpp"

namespace hbmwire::memory::host {
namespace {

using test::LentMemory;
using How = LentMemory::How;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kPages = 10;

AddressRange range_of(const void* memory, std::size_t bytes) {
  const auto begin = std::bit_cast<std::uint64_t>(memory);
  return {begin, begin + bytes};
}

/// Has all of the memory checked.
Result<void> look(const LentMemory& memory, bool writes) {
  return check_pages(range_of(memory.data(), memory.size_bytes()), writes, "host");
}

void expect_refused(const Result<void>& looked, Errc code, Hint hint) {
  ASSERT_FALSE(looked);
  EXPECT_EQ(looked.error().stage, Stage::register_memory);
  EXPECT_EQ(looked.error().code, code) << describe(looked.error());
  EXPECT_EQ(looked.error().hint, hint) << describe(looked.error());
}

TEST(MappedPages, OrdinaryMemoryIsThere) {
  std::vector<std::byte> heap(kPages * kPage);
  int stack = 0;
  EXPECT_TRUE(check_pages(range_of(heap.data(), heap.size()), true, "host"));
  EXPECT_TRUE(check_pages(range_of(&stack, sizeof stack), true, "host"));
  EXPECT_TRUE(check_pages(range_of(&kPages, sizeof kPages), false, "host"));
  expect_refused(check_pages(range_of("constant", 8), true, "host"), Errc::permission_denied,
                 Hint::memory_not_writable);
}

TEST(MappedPages, MemoryOfManyMappingsIsThere) {
  const LentMemory memory(kPages * kPage);
  // Every second page is a separate mapping.
  for (std::size_t i = 0; i < kPages; i += 2)
    ASSERT_EQ(::mprotect(memory.data() + i * kPage, kPage, PROT_READ), 0);
  EXPECT_TRUE(look(memory, false));
  expect_refused(look(memory, true), Errc::permission_denied, Hint::memory_not_writable);
}

TEST(MappedPages, AHoleAnywhereIsFound) {
  for (std::size_t i = 0; i < kPages; ++i) {
    const LentMemory memory(kPages * kPage);
    ASSERT_EQ(::munmap(memory.data() + i * kPage, kPage), 0);
    expect_refused(look(memory, false), Errc::invalid_argument, Hint::not_host_memory);
  }
}

TEST(MappedPages, APageThatCannotBeReadOrWrittenIsFound) {
  for (std::size_t i = 0; i < kPages; ++i) {
    const LentMemory memory(kPages * kPage);
    ASSERT_EQ(::mprotect(memory.data() + i * kPage, kPage, PROT_READ), 0);
    EXPECT_TRUE(look(memory, false));
    expect_refused(look(memory, true), Errc::permission_denied, Hint::memory_not_writable);
    ASSERT_EQ(::mprotect(memory.data() + i * kPage, kPage, PROT_NONE), 0);
    expect_refused(look(memory, false), Errc::invalid_argument, Hint::not_host_memory);
  }
}

TEST(MappedPages, AFileThatEndsBeforeItsMappingIsFound) {
  for (std::size_t i = 0; i < kPages; ++i) {
    const LentMemory memory(kPages * kPage);
    memory.take_away(How::truncated, i * kPage);
    expect_refused(look(memory, false), Errc::invalid_argument, Hint::memory_beyond_file);
    if (i == 0) continue;
    EXPECT_TRUE(check_pages(range_of(memory.data(), i * kPage), true, "host"));
  }
}

TEST(MappedPages, UntouchedMemoryStaysUntouched) {
  // Sanitizers leave no room for much more.
  constexpr std::size_t kMuch = std::size_t{64} << 30U;
  void* const memory = ::mmap(nullptr, kMuch, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  EXPECT_TRUE(check_pages(range_of(memory, kMuch), true, "host"));
  std::vector<unsigned char> resident(1024);
  ASSERT_EQ(::mincore(memory, resident.size() * kPage, resident.data()), 0);
  for (const unsigned char one : resident) EXPECT_EQ(one & 1U, 0U);
  ::munmap(memory, kMuch);
}

/// Returns 0 if the ends are still checked and every hole is found, else the line that is wrong.
int look_without_proc() {
  const LentMemory memory(kPages * kPage);
  if (!look(memory, true)) return __LINE__;
  memory.take_away(How::read_only);
  if (!look(memory, false) || look(memory, true)) return __LINE__;
  for (std::size_t i = 0; i < kPages; ++i) {
    const LentMemory with_hole(kPages * kPage);
    ::munmap(with_hole.data() + i * kPage, kPage);
    if (look(with_hole, false)) return __LINE__;
  }
  for (const How how : {How::unmapped, How::truncated}) {
    const LentMemory ends(kPages * kPage);
    ends.take_away(how, (kPages - 1) * kPage);
    if (look(ends, false)) return __LINE__;
  }
  return 0;
}

TEST(MappedPages, WithoutProcTheEndsAndHolesAreFound) {
  constexpr int kNoNamespace = 255;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool hidden = ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
                        ::mount("none", "/proc", "tmpfs", 0, nullptr) == 0;
    ::_exit(hidden ? look_without_proc() : kNoNamespace);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  if (WEXITSTATUS(status) == kNoNamespace) GTEST_SKIP() << "no mount namespace of one's own";
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the line of the first mistake";
}

}  // namespace
}  // namespace hbmwire::memory::host

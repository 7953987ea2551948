// SPDX-License-Identifier: MIT
#include "base/guarded_copy.hpp"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <vector>

#include "tests/support/bytes.hpp"
#include "tests/support/lent_memory.hpp"

namespace hbmwire {
namespace {

using test::LentMemory;
using test::pattern;
using test::same_bytes;
using How = LentMemory::How;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kBytes = 100 * kPage;

/// Returns 0 if everything is right, else the line that is not.
int copies_what_is_there_and_reports_what_is_not() {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kPage + 1, 70 * kPage + 5}) {
    const LentMemory theirs(kBytes);
    const auto bytes = pattern(size, 3);
    std::vector<std::byte> back(size);
    if (!copy_to_application(theirs.data() + 7, bytes)) return __LINE__;
    if (!copy_from_application(back, theirs.data() + 7)) return __LINE__;
    if (!same_bytes(back, bytes)) return __LINE__;
  }
  for (const How how : {How::unmapped, How::truncated}) {
    for (const std::size_t from : {std::size_t{0}, 50 * kPage, kBytes - kPage}) {
      const LentMemory theirs(kBytes);
      theirs.take_away(how, from);
      std::vector<std::byte> ours(kBytes);
      if (copy_from_application(ours, theirs.data())) return __LINE__;
      if (copy_to_application(theirs.data(), ours)) return __LINE__;
      if (can_read(theirs.data() + from) || can_write(theirs.data() + from)) return __LINE__;
      if (from == 0) continue;
      // The bytes before the missing memory can still be copied.
      const std::span before(ours.data(), from);
      if (!copy_from_application(before, theirs.data())) return __LINE__;
      if (!copy_to_application(theirs.data(), before)) return __LINE__;
      // can_write() tries the four bytes of a word.
      if (!can_read(theirs.data() + from - 1) || !can_write(theirs.data() + from - 4))
        return __LINE__;
    }
  }
  const LentMemory theirs(kBytes);
  theirs.take_away(How::read_only);
  std::vector<std::byte> ours(kBytes);
  if (!copy_from_application(ours, theirs.data()) || !can_read(theirs.data())) return __LINE__;
  if (copy_to_application(theirs.data(), ours) || can_write(theirs.data())) return __LINE__;
  return 0;
}

TEST(GuardedCopy, CopiesPresentMemoryAndReportsMissingMemory) {
  EXPECT_EQ(copies_what_is_there_and_reports_what_is_not(), 0) << "the line of the first mistake";
}

TEST(GuardedCopy, AskingWhetherMemoryCanBeWrittenChangesNothing) {
  const LentMemory theirs(kPage);
  const auto bytes = pattern(kPage, 5);
  ASSERT_TRUE(copy_to_application(theirs.data(), bytes));
  for (std::size_t i = 0; i < kPage; i += 4) ASSERT_TRUE(can_write(theirs.data() + i));
  EXPECT_TRUE(same_bytes(theirs.bytes(), bytes));
}

/// As in a container whose profile forbids these calls because debuggers use them.
bool forbid_process_vm_calls() {
  std::array filter{
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),  // seccomp_data::nr
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{.len = filter.size(), .filter = filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(GuardedCopy, WorksWhereProcessVmCallsAreForbidden) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    constexpr int kNoFilter = 255;
    if (!forbid_process_vm_calls()) ::_exit(kNoFilter);
    ::_exit(copies_what_is_there_and_reports_what_is_not());
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the line of the first mistake";
}

}  // namespace
}  // namespace hbmwire

// SPDX-License-Identifier: MIT
// With little room for the emulated hardware's files, `hbmwire emulate` prints one sentence and
// leaves no files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <fstream>

#include "emulation/tests/emulate/world_fixture.hpp"
#include "emulation/tool/end_cause.hpp"

namespace hbmwire::emulate_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(World, WorksOrNamesTheLimitOfDescriptors) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UndefinedBehaviorSanitizer looks at memory by pipe(2), which takes descriptors";
#endif
  int refused = 0;
  for (rlim_t limit = 4; limit < 64; ++limit) {
    SCOPED_TRACE(limit);
    const auto outcome = shell({"--nics", "2", "--cuda", "1"}, "true", {.in_child = [limit] {
                                 const rlimit few{limit, limit};
                                 ::setrlimit(RLIMIT_NOFILE, &few);
                               }});
    ASSERT_TRUE(nothing_is_left());
    if (outcome.exit_code == 0) continue;
    // Before main() the dynamic linker reports the error by 127; 123 is Process's failed exec.
    if (outcome.exit_code == 127 || outcome.exit_code == 123) continue;
    ++refused;
    EXPECT_EQ(outcome.exit_code, 125) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("ulimit -n"));
  }
  EXPECT_GT(refused, 5);
}

TEST_F(World, NamesTheOptionForAnotherPlaceIfThePlaceIsUnusable) {
  for (const char* place : {"/no/such/folder", "/proc", "/dev/null"}) {
    const auto outcome = run({program(), "--dir", place, "--", "true"});
    EXPECT_EQ(outcome.exit_code, 125) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("--dir"));
  }
}

/// A file that stands for /proc/vmstat, before and after the run.
class Vmstat : public World {
 protected:
  void SetUp() override {
    World::SetUp();
    file_ = directory().string() + ".vmstat";
    set_kill_count(7);
  }

  void TearDown() override {
    std::filesystem::remove(file_);
    World::TearDown();
  }

  /// Writes the number of processes that were killed for want of memory.
  void set_kill_count(int count) const {
    std::ofstream(file_) << "pgfault 5\noom_kill " << count << "\nzswpin 1\n";
  }

  std::filesystem::path file_;
};

TEST_F(Vmstat, AKillForWantOfMemoryIsTheCauseIfThereWasOne) {
  const emulation::tool::EndCause cause(directory(), file_);
  EXPECT_THAT(cause.explain(128 + SIGKILL), IsEmpty());
  set_kill_count(8);
  EXPECT_THAT(cause.explain(128 + SIGKILL), HasSubstr("--dir"));
  EXPECT_THAT(cause.explain(128 + SIGKILL), HasSubstr("memory.max"));
  EXPECT_THAT(cause.explain(128 + SIGTERM), IsEmpty());
  EXPECT_THAT(cause.explain(0), IsEmpty());
}

TEST_F(Vmstat, ABusErrorInAFileSystemWithRoomHasAnotherCause) {
  const emulation::tool::EndCause cause(directory(), file_);
  EXPECT_THAT(cause.explain(128 + SIGBUS), IsEmpty());
}

/// A mount namespace in which $1 is a file system of 64 MiB. Runs the other arguments there.
constexpr const char* kSmall = "mount -t tmpfs -o size=64m none \"$1\" && shift && exec \"$@\"";

class SmallRoom : public OrdinaryUser {
 protected:
  [[nodiscard]] Process::Outcome in_small_room(const std::string& script) const {
    std::vector<std::string> command = {"unshare", "--mount",           "sh", "-c", kSmall,
                                        "sh",      directory().string()};
    const auto emulated = emulate({}, script);
    command.insert(command.end(), emulated.begin(), emulated.end());
    return run(command);
  }
};

TEST_F(SmallRoom, ABusErrorInAFullFileSystemIsNamed) {
  const std::string full = "head -c 80M /dev/zero >" + directory().string() + "/all 2>/dev/null; ";
  const auto outcome = in_small_room(full + "kill -BUS $$");
  EXPECT_EQ(outcome.exit_code, 125);
  EXPECT_THAT(outcome.err, HasSubstr("--shm-size"));
  EXPECT_THAT(outcome.err, HasSubstr("--dir"));
}

}  // namespace
}  // namespace hbmwire::emulate_test

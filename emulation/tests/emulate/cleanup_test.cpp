// SPDX-License-Identifier: MIT
// No files or processes remain, whichever process is the last and however it ends. World::TearDown
// checks that after each test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

#include "emulation/tests/emulate/world_fixture.hpp"
#include "emulation/tool/file_lock.hpp"

namespace hbmwire::emulate_test {
namespace {

using ::testing::AnyOf;
using ::testing::Eq;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

/// The process id that a script has printed.
pid_t number_in(const std::string& text) {
  return static_cast<pid_t>(std::strtol(text.c_str(), nullptr, 10));
}

TEST_F(World, IsCleanAtOnceAfterANormalEnd) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(shell({}, "true").exit_code, 0);
    EXPECT_TRUE(nothing_is_left());
  }
}

TEST_F(World, CleansUpAfterCommandIsKilled) {
  Process process(emulate({}, "echo $$; exec sleep 100"));
  ASSERT_TRUE(process.wait_for_output("\n"));
  EXPECT_TRUE(becomes_true([&] { return janitors().size() == 1; }));
  // `sleep` has no --dir on its command line, so only emulate and its janitor are found.
  EXPECT_EQ(processes().size(), 2U);
  ::kill(number_in(process.output()), SIGKILL);
  EXPECT_EQ(process.finish().exit_code, 128 + SIGKILL);
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(World, OutlivesEmulateButNotCommand) {
  Process process(emulate({}, "echo $$; exec sleep 100"));
  ASSERT_TRUE(process.wait_for_output("\n"));
  process.signal(SIGKILL);
  EXPECT_FALSE(becomes_true([&] { return nothing_is_left(); }, 100ms));
  ::kill(number_in(process.output()), SIGKILL);
  // finish() reads the pipe to its end, which COMMAND has held open.
  EXPECT_EQ(process.finish().exit_code, 128 + SIGKILL);
}

TEST_F(World, CleansUpAfterEverythingIsKilledAtOnce) {
  Process process(emulate({}, "trap '' TERM; sleep 100 & echo ready; wait"),
                  {.in_child = [] { ::setpgid(0, 0); }});
  ASSERT_TRUE(process.wait_for_output("ready"));
  // Ends emulate, the shell and its child. The janitor has its own session.
  ::kill(-process.pid(), SIGKILL);
  EXPECT_EQ(process.finish().exit_code, 128 + SIGKILL);
}

TEST_F(World, IsSweptByTheNextRunWhenTheJanitorIsKilledToo) {
  Process process(emulate({"--nics", "2"}, "sleep 100 & echo ready; wait"),
                  {.in_child = [] { ::setpgid(0, 0); }});
  ASSERT_TRUE(process.wait_for_output("ready"));
  ASSERT_TRUE(becomes_true([&] { return janitors().size() == 1; }));
  for (const pid_t janitor : janitors()) ::kill(janitor, SIGKILL);
  ::kill(-process.pid(), SIGKILL);
  process.finish();
  EXPECT_FALSE(becomes_true([&] { return nothing_is_left(); }, 50ms));
  EXPECT_EQ(shell({}, "ls -d $HBMWIRE_EMULATION_FABRIC/../* | wc -l").out, "1\n")
      << "the next run's own fabric alone";
  EXPECT_TRUE(nothing_is_left());
}

/// Whether the process blocks the signal.
bool blocks(pid_t process, int signal) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);) {
    constexpr std::string_view kBlocked = "SigBlk:";  // then a mask whose lowest bit is signal 1
    if (line.starts_with(kBlocked))
      return (std::strtoull(line.c_str() + kBlocked.size(), nullptr, 16) >> (signal - 1) & 1U) != 0;
  }
  return false;
}

/// Interrupts at many stages of the set-up: as soon as that many entries are below the --dir.
TEST_F(World, CleansUpAfterASignalDuringSetUp) {
  namespace fs = std::filesystem;
  const auto entries = [this] {
    std::size_t count = 0;
    std::error_code gone;
    for (fs::recursive_directory_iterator it(directory(), gone), end; !gone && it != end;
         it.increment(gone))
      ++count;
    return count;
  };
  int interrupted = 0;
  for (const std::size_t awaited : {1U, 2U, 4U, 8U, 16U, 32U, 64U, 128U, 256U}) {
    const int number = awaited % 3 == 1 ? SIGINT : SIGTERM;  // in turn, for powers of two
    Process process(emulate({"--nics", "4", "--gaudi", "4"}, "exec sleep 0.2"),
                    {.in_child = [] { ::setpgid(0, 0); }});
    const auto deadline = std::chrono::steady_clock::now() + 5s;
    while (entries() < awaited && std::chrono::steady_clock::now() < deadline) {
    }
    ::kill(-process.pid(), number);
    const auto outcome = process.finish();
    // COMMAND may have run already and ended.
    EXPECT_THAT(outcome.exit_code, AnyOf(Eq(128 + number), Eq(0))) << outcome.err;
    interrupted += outcome.err == "hbmwire emulate: interrupted\n" ? 1 : 0;
    EXPECT_TRUE(becomes_true([&] { return nothing_is_left(); }, 500ms)) << awaited;
  }
  EXPECT_GT(interrupted, 0) << "every signal came after the set-up";
}

TEST_F(World, GivesUpOnASignalWhileItWaitsForTheFabricsLock) {
  const auto base = directory() / ("hbmwire-" + std::to_string(::geteuid()));
  ASSERT_EQ(::mkdir(base.c_str(), 0700), 0);
  ASSERT_EQ(::mkdir((base / "f").c_str(), 0700), 0);
  {
    const auto lock =
        emulation::tool::lock_exclusively(base / "f" / "lock", emulation::tool::Wait::no, true);
    ASSERT_TRUE(lock);
    Process process(emulate({"--fabric", "f"}, "true"));
    // A process that was just forked, or starts with a sanitizer, blocks all signals for a moment.
    // emulate does not block SIGALRM.
    ASSERT_TRUE(becomes_true(
        [&] { return blocks(process.pid(), SIGINT) && !blocks(process.pid(), SIGALRM); }));
    process.signal(SIGINT);
    const auto outcome = process.finish();
    EXPECT_EQ(outcome.exit_code, 128 + SIGINT);
    EXPECT_EQ(outcome.err, "hbmwire emulate: interrupted\n");
  }
  EXPECT_EQ(shell({"--fabric", "f"}, "true").exit_code, 0);
}

TEST_F(World, StaysForAChildInTheBackground) {
  const auto go = directory() / "go";
  // The janitor and the child do not hold the pipe, and emulate does not wait for the child. So
  // this returns although the child waits for a later step.
  const auto outcome =
      shell({}, "(until [ -e " + go.string() +
                    " ]; do sleep 0.02; done; ls -d $HBMWIRE_EMULATION_NODE) > " +
                    directory().string() + "/saw 2>&1 & echo $HBMWIRE_EMULATION_NODE");
  EXPECT_TRUE(std::filesystem::exists(line(outcome.out)));
  std::ofstream(go).close();
  EXPECT_TRUE(becomes_true([&] { return !std::filesystem::exists(line(outcome.out)); }));
  std::ifstream saw(directory() / "saw");
  std::string node;
  std::getline(saw, node);
  EXPECT_EQ(node + "\n", outcome.out);
  std::filesystem::remove(directory() / "saw");
  std::filesystem::remove(go);
}

TEST_F(World, LeavesAFabricToTheNodesStillInIt) {
  Process first(emulate({"--fabric", "f", "--name", "a"},
                        "touch $HBMWIRE_EMULATION_FABRIC/nic.shm; echo ready; "
                        "read -r x; ls $HBMWIRE_EMULATION_FABRIC/nodes; exec sleep 100"));
  ASSERT_TRUE(first.wait_for_output("a\n"));
  const auto second = shell({"--fabric", "f", "--name", "b"},
                            "ls $HBMWIRE_EMULATION_FABRIC $HBMWIRE_EMULATION_FABRIC/nodes");
  EXPECT_EQ(second.exit_code, 0);
  EXPECT_THAT(second.out, HasSubstr("nic.shm"));
  EXPECT_THAT(second.out, HasSubstr("a\nb\n"));
  const auto third = shell({"--fabric", "f", "--name", "c"}, "ls $HBMWIRE_EMULATION_FABRIC/nodes");
  EXPECT_EQ(third.out, "a\nc\n");
  first.signal(SIGTERM);
  first.finish();
}

TEST_F(World, SurvivesManyRunsThatJoinAndLeaveAtOnce) {
  std::vector<std::unique_ptr<Process>> runs;
  for (int i = 0; i < 24; ++i) {
    const auto name = "n" + std::to_string(i % 3);
    runs.push_back(std::make_unique<Process>(
        emulate({"--quiet", "--fabric", "f", "--name", name, "--nics", "1", "--gaudi", "1"},
                "test -d $HBMWIRE_EMULATION_NODE/gaudi0 && sleep 0.0" + std::to_string(i % 7) +
                    " && test -f $SYSFS_PATH/class/infiniband/emu0/fw_ver")));
  }
  for (auto& one : runs) {
    const auto outcome = one->finish();
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  }
}

}  // namespace
}  // namespace hbmwire::emulate_test

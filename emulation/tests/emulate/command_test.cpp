// SPDX-License-Identifier: MIT
// COMMAND as a child: exit codes, signals and streams.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "emulation/tests/emulate/world_fixture.hpp"

namespace hbmwire::emulate_test {
namespace {

using ::testing::HasSubstr;

TEST_F(World, ExitsAsCommandDoes) {
  EXPECT_EQ(shell({}, "exit 0").exit_code, 0);
  EXPECT_EQ(shell({}, "exit 7").exit_code, 7);
  EXPECT_EQ(shell({}, "kill -9 $$").exit_code, 128 + SIGKILL);
}

TEST_F(World, SaysWhenCommandCannotBeRun) {
  const auto missing =
      run({program(), "--dir", directory().string(), "--", "/nonexistent/program"});
  EXPECT_EQ(missing.exit_code, 127);
  EXPECT_THAT(missing.err, HasSubstr("cannot run /nonexistent/program: No such file"));
  EXPECT_EQ(run({program(), "--dir", directory().string(), "--", "/etc/passwd"}).exit_code, 126)
      << "the file is no program";
}

// The exit code is 2 for a wrong command line, and 125 if the set-up fails.
TEST_F(World, ReportsWrongUsage) {
  const auto wrong = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {program()});
    const auto outcome = run(arguments);
    EXPECT_THAT(outcome.err, HasSubstr("hbmwire emulate: "));
    return outcome.exit_code;
  };
  EXPECT_EQ(wrong({}), 2);
  EXPECT_EQ(wrong({"--"}), 2);
  EXPECT_EQ(wrong({"true"}), 2);
  EXPECT_EQ(wrong({"--nics", "17", "--", "true"}), 2);
  EXPECT_EQ(wrong({"--gaudi-kind", "gaudi4", "--", "true"}), 2);
  // Without the error these options would be ignored.
  EXPECT_EQ(wrong({"--gaudi", "0", "--gaudi-kind", "gaudi3", "--", "true"}), 2);
  EXPECT_EQ(wrong({"--nics", "0", "--ports", "2", "--", "true"}), 2);
  EXPECT_EQ(wrong({"--nics", "0", "--latency", "5us", "--", "true"}), 2);
  EXPECT_EQ(wrong({"--nics", "0", "--link", "emu0=down", "--", "true"}), 2);
  EXPECT_EQ(wrong({"--name", "../x", "--", "true"}), 2);
  EXPECT_EQ(wrong({"--name", "", "--", "true"}), 2);
  EXPECT_EQ(wrong({"--frobnicate", "--", "true"}), 2);
  EXPECT_EQ(wrong({"--dir", "/nonexistent", "--", "true"}), 125);
  EXPECT_EQ(run({program(), "--help"}).exit_code, 0);
}

TEST_F(World, ExplainsWrongUsage) {
  const auto said = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {program()});
    return run(arguments).err;
  };
  EXPECT_THAT(said({"--nisc", "2", "--", "true"}),
              HasSubstr("--nisc: unknown option; did you mean --nics?"));
  EXPECT_THAT(said({"--frobnicate", "--", "true"}), HasSubstr("--frobnicate: unknown option\n"));
  EXPECT_THAT(said({"true"}),
              HasSubstr("true: COMMAND follows \"--\", as in hbmwire emulate -- true"));
  EXPECT_THAT(said({"--nics", "2", "ls", "-l"}), HasSubstr("hbmwire emulate -- ls -l"));
  EXPECT_THAT(said({"--nics", "17", "--", "true"}),
              HasSubstr("--nics 17: give a number from 0 to 16"));
  EXPECT_THAT(said({"--seed", "x", "--", "true"}), HasSubstr("--seed x: give a number"));
  EXPECT_THAT(said({"--gaudi-kind", "gaudi4", "--", "true"}),
              HasSubstr("--gaudi-kind gaudi4: give one of gaudi, gaudi2, gaudi3"));
  EXPECT_THAT(said({"--nics"}), HasSubstr("--nics needs a value"));
  EXPECT_THAT(said({"--name=", "a"}), HasSubstr("--name needs a value"));
  EXPECT_THAT(said({"--name", ""}), HasSubstr("--name needs a value"));
  EXPECT_THAT(said({"--name", "--quiet"}), HasSubstr("--name needs a value; if --quiet is it"));
  EXPECT_THAT(said({"--quiet=1"}), HasSubstr("--quiet=1: --quiet takes no value"));
}

TEST_F(World, SaysThatItsHelpCouldNotBePrinted) {
  for (const char* where : {">/dev/full", ">&-"}) {
    const auto outcome = run({"sh", "-c", program() + " --help " + where});
    EXPECT_EQ(outcome.exit_code, 1) << where;
    EXPECT_THAT(outcome.err, HasSubstr("hbmwire emulate: writing to standard output: "));
  }
}

TEST_F(World, RefusesNicsForALibibverbsThatItDoesNotKnow) {
  const auto refused = run({"env", "LD_LIBRARY_PATH=" HBMWIRE_UNKNOWN_LIBIBVERBS, program(),
                            "--dir", directory().string(), "--", "true"});
  EXPECT_EQ(refused.exit_code, 125);
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(refused.err,
              HasSubstr("the installed rdma-core (version 99.0) has a private interface that the "
                        "emulated NIC does not know; it works with rdma-core 39 to 65"));
  EXPECT_EQ(run({"env", "LD_LIBRARY_PATH=" HBMWIRE_UNKNOWN_LIBIBVERBS, program(), "--quiet",
                 "--dir", directory().string(), "--nics", "0", "--", "true"})
                .exit_code,
            0);
}

TEST_F(World, RefusesABaseThatIsNotItsOwn) {
  const auto base = directory() / ("hbmwire-" + std::to_string(::geteuid()));
  std::filesystem::create_symlink("/tmp", base);
  const auto refused = shell({}, "true");
  EXPECT_EQ(refused.exit_code, 125);
  EXPECT_THAT(refused.err, HasSubstr("is not a directory of this user alone"));
  std::filesystem::remove(base);
}

TEST_F(World, RefusesPathsThatLibibverbsCannotHold) {
  const std::string name(64, 'n');
  const auto deep = directory() / std::string(60, 'd');
  std::filesystem::create_directory(deep);
  const auto refused = run({program(), "--dir", deep.string(), "--name", name, "--", "true"});
  EXPECT_EQ(refused.exit_code, 125);
  EXPECT_THAT(refused.err, HasSubstr("too long a path for libibverbs"));
  EXPECT_TRUE(std::filesystem::is_empty(deep));
  std::filesystem::remove(deep);
}

TEST_F(World, PassesStreamsThrough) {
  EXPECT_EQ(shell({}, "tr a-z A-Z", {.input = "hello\n"}).out, "HELLO\n");
  const auto lines = shell({}, "i=0; while [ $i -lt 1000 ]; do echo line $i; i=$((i+1)); done");
  EXPECT_EQ(std::count(lines.out.begin(), lines.out.end(), '\n'), 1000);
  EXPECT_THAT(lines.out, HasSubstr("line 999\n"));
}

TEST_F(World, PassesOnSignalsOfOtherProcesses) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) {
    Process process(
        emulate({}, "trap 'exit 40' TERM INT HUP USR1; echo ready; while :; do sleep 0.01; done"));
    ASSERT_TRUE(process.wait_for_output("ready"));
    process.signal(number);
    EXPECT_EQ(process.finish().exit_code, 40) << number;
  }
}

TEST_F(World, LeavesIgnoredSignalsIgnored) {
  const auto script = "kill -HUP $$; kill -INT $$; echo alive";
  const auto outcome = shell({}, script, {.in_child = [] {
                               ::signal(SIGHUP, SIG_IGN);
                               ::signal(SIGINT, SIG_IGN);
                               ::signal(SIGCHLD, SIG_IGN);
                             }});
  EXPECT_EQ(outcome.out, "alive\n");
  EXPECT_EQ(outcome.exit_code, 0);
}

/// A terminal with `command` in the foreground.
class Terminal {
 public:
  explicit Terminal(const std::vector<std::string>& command) {
    pid_ = ::forkpty(&fd_, nullptr, nullptr, nullptr);
    if (pid_ != 0) return;
    std::vector<char*> argv;
    for (const auto& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    ::_exit(123);
  }

  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  ~Terminal() { ::close(fd_); }

  void type(char c) const { EXPECT_EQ(::write(fd_, &c, 1), 1); }

  /// Reads until the output contains `text`. Returns false if the output ends before.
  bool wait_for(const std::string& text) {
    while (seen_.find(text) == std::string::npos) {
      std::array<char, 512> buffer{};
      const auto length = ::read(fd_, buffer.data(), buffer.size());
      if (length <= 0) return false;
      seen_.append(buffer.data(), static_cast<std::size_t>(length));
    }
    return true;
  }

  /// Waits for the program's end. Returns 128 + N if signal N ended it.
  [[nodiscard]] int wait_for_exit() const {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  [[nodiscard]] const std::string& seen() const { return seen_; }

 private:
  pid_t pid_ = -1;
  int fd_ = -1;
  std::string seen_;
};

constexpr char kControlC = '\x03';

TEST_F(World, LetsControlCReachCommandOnce) {
  // Perl, because a shell runs its trap only once for two signals that come close together.
  Terminal terminal(emulate({}, R"(exec perl -e '$SIG{INT} = sub { $n++ }; $| = 1; print "ready\n";
    select(undef, undef, undef, 0.01) for 1..30; print "got $n\n"; exit 6')"));
  ASSERT_TRUE(terminal.wait_for("ready"));
  terminal.type(kControlC);
  ASSERT_TRUE(terminal.wait_for("got ")) << terminal.seen();
  terminal.wait_for("\n\n");  // which never comes, so this reads to the end
  EXPECT_THAT(terminal.seen(), HasSubstr("got 1\r\n"));
  EXPECT_EQ(terminal.wait_for_exit(), 6);
}

TEST_F(World, ControlCEndsCommand) {
  Terminal terminal(emulate({}, "echo ready; exec sleep 100"));
  ASSERT_TRUE(terminal.wait_for("ready"));
  terminal.type(kControlC);
  EXPECT_EQ(terminal.wait_for_exit(), 128 + SIGINT);
}

TEST_F(World, GivesCommandTheTerminal) {
  Terminal terminal(emulate({}, "tty; test -t 0 && test -t 1 && read -r x && echo read $x"));
  ASSERT_TRUE(terminal.wait_for("/dev/pts/"));
  for (const char c : std::string("abc\n")) terminal.type(c);
  EXPECT_TRUE(terminal.wait_for("read abc")) << terminal.seen();
  EXPECT_EQ(terminal.wait_for_exit(), 0);
}

}  // namespace
}  // namespace hbmwire::emulate_test

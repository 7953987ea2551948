// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <new>
#include <stdexcept>

#include "emulation/tests/nic/plugin.hpp"
#include "emulation/tests/survival/length.hpp"
#include "emulation/tests/survival/storm_session.hpp"

/// Workers that use all features at once and are killed or stopped at random. Each survivor checks
/// the data that it gets. At the end no records of dead workers are left.
namespace hbmwire::test {
namespace {

class Storm {
 public:
  explicit Storm(std::uint64_t seed) : random_(seed), board_(make_board()) {
    for (std::size_t worker = 0; worker < kWorkers; ++worker) start(worker);
  }

  Storm(const Storm&) = delete;
  Storm& operator=(const Storm&) = delete;

  ~Storm() {
    for (const pid_t pid : pids_) {
      if (pid > 0) ::kill(pid, SIGKILL);
      if (pid > 0) ::waitpid(pid, nullptr, 0);
    }
    ::munmap(board_, sizeof(Board));
  }

  /// Stops or kills a random worker. A stopped one is continued or killed; a killed one is
  /// replaced. Returns false if a worker has found an error.
  bool strike() {
    ::usleep(static_cast<useconds_t>(below(random_, 15000)));
    const std::size_t worker = below(random_, kWorkers);
    const pid_t pid = pids_[worker];
    if (below(random_, 4) == 0) {
      ::kill(pid, SIGSTOP);
      ::usleep(static_cast<useconds_t>(below(random_, 20000)));
      if (below(random_, 2) == 0) {
        ::kill(pid, SIGCONT);
        return true;
      }
    }
    ::kill(pid, SIGKILL);
    int status = 0;
    ::waitpid(pid, &status, 0);
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    EXPECT_TRUE(killed) << "worker " << pid << " ended by itself: " << status;
    pids_[worker] = 0;
    ++kills_;
    start(worker);
    return killed;
  }

  void end() {
    board_->stop.store(true);
    for (pid_t& pid : pids_) {
      int status = 0;
      ::waitpid(pid, &status, 0);
      EXPECT_EQ(status, 0) << "worker " << pid;
      pid = 0;
    }
  }

  [[nodiscard]] unsigned kills() const { return kills_; }

  [[nodiscard]] const Board& board() const { return *board_; }

 private:
  static Board* make_board() {
    void* memory =
        ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return new (memory) Board{};
  }

  void start(std::size_t worker) {
    const std::uint64_t seed = random_();
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(run_worker(*board_, worker, seed));
    if (pid < 0) throw std::runtime_error("fork() failed");
    pids_[worker] = pid;
  }

  Random random_;
  Board* board_;
  std::array<pid_t, kWorkers> pids_{};
  unsigned kills_ = 0;
};

/// The number of processes that have a directory in the fabric.
std::size_t count_directories() {
  const std::filesystem::path fabric = std::getenv("HBMWIRE_EMULATION_FABRIC");
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator(fabric / "processes"))
    ++count;
  return count;
}

TEST(Storm, LeavesEachSurvivorWithADefiniteResult) {
  const std::uint64_t seed = seed_of_run();
  const Context context = open_device();
  ASSERT_NE(context, nullptr);
  const std::uint64_t bytes = ring_bytes();
  Storm storm(seed);
  while (storm.kills() < kKills) ASSERT_TRUE(storm.strike());
  storm.end();
  const Board& board = storm.board();
  std::printf(
      "%u kills; %llu sessions, %llu messages, %llu verified writes, %llu failures, "
      "%llu connections\n",
      storm.kills(), static_cast<unsigned long long>(board.sessions.load()),
      static_cast<unsigned long long>(board.messages.load()),
      static_cast<unsigned long long>(board.verified.load()),
      static_cast<unsigned long long>(board.failures_seen.load()),
      static_cast<unsigned long long>(board.connections.load()));
  EXPECT_GT(board.messages.load(), 0U);
  EXPECT_GT(board.verified.load(), 0U);
  EXPECT_GT(board.connections.load(), 0U);
  EXPECT_EQ(records_of_others(), 0U);
  EXPECT_EQ(plugin_function<unsigned (*)()>("hbmwire_cm_live_records")(), 0U);
  EXPECT_EQ(ring_bytes(), bytes);
  EXPECT_TRUE(locks_are_free());
  EXPECT_EQ(count_directories(), 1U) << "this process alone has one";
}

}  // namespace
}  // namespace hbmwire::test

// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "emulation/tests/nic/child_process.hpp"
#include "emulation/tests/nic/endpoint.hpp"
#include "emulation/tests/nic/plugin.hpp"
#include "emulation/tests/survival/demand.hpp"
#include "emulation/tests/survival/length.hpp"

/// The greatest number of processes, queue pairs and regions of a node, in one fabric.
namespace hbmwire::test {
namespace {

constexpr std::size_t kRegionBytes = 4096;
constexpr std::size_t kAllocationBytes = kScaleRegions * kRegionBytes;
constexpr rlim_t kDescriptors = 256;  // far fewer than there are regions

/// Memory of all processes: the numbers and keys that each tells the others.
struct Plan {
  std::atomic<std::size_t> arrived;
  std::array<std::array<std::uint32_t, kScaleQueuePairs>, kScaleProcesses> queue_pairs;
  std::array<std::array<std::uint32_t, kScaleAllocations * kScaleRegions>, kScaleProcesses> keys;
};

/// Waits until all processes have reached the `step`-th meeting.
void meet(Plan& plan, std::size_t step) {
  plan.arrived.fetch_add(1);
  while (plan.arrived.load() < step * kScaleProcesses) ::usleep(1000);
}

/// A process of the fabric, with its queue pairs and regions. An Endpoint works with one queue
/// pair, so the others take that place in turn.
class Member {
 public:
  Member(Plan& plan, std::size_t self) : plan_(plan), self_(self), base_({.cq_depth = 1024}) {}

  void run() {
    make_regions();
    make_queue_pairs();
    meet(plan_, 1);
    connect();
    meet(plan_, 2);
    write_to_peer();
    meet(plan_, 3);
    check_memory();
  }

 private:
  /// Processes 0 and 1 are peers, 2 and 3, and so on.
  [[nodiscard]] std::size_t peer() const { return self_ ^ 1U; }

  void make_regions() {
    for (std::size_t i = 0; i < kScaleAllocations; ++i) {
      files_.emplace_back(::memfd_create("allocation", MFD_CLOEXEC));
      demand(::ftruncate(files_.back().get(), kAllocationBytes) == 0, "ftruncate");
      for (std::size_t j = 0; j < kScaleRegions; ++j) {
        regions_.emplace_back(ibv_reg_dmabuf_mr(base_.pd.get(), j * kRegionBytes, kRegionBytes, 0,
                                                files_.back().get(), kAllAccess));
        demand(regions_.back() != nullptr, "region " + std::to_string(regions_.size()));
        plan_.keys[self_][regions_.size() - 1] = regions_.back()->rkey;
      }
    }
  }

  void make_queue_pairs() {
    for (std::size_t i = 0; i < kScaleQueuePairs; ++i) {
      queue_pairs_.push_back(base_.next_qp());  // the one before the new one
      plan_.queue_pairs[self_][i] = base_.qp->qp_num;
    }
    // The endpoint's first queue pair is not in the plan. It changes places with the last one.
    std::rotate(queue_pairs_.begin(), queue_pairs_.begin() + 1, queue_pairs_.end());
    std::swap(queue_pairs_.back(), base_.qp);
  }

  void connect() {
    Address there = base_.address();
    for (std::size_t i = 0; i < kScaleQueuePairs; ++i) {
      std::swap(base_.qp, queue_pairs_[i]);
      base_.psn = 0;
      there.qpn = plan_.queue_pairs[peer()][i];
      there.psn = 0;
      base_.connect(there, {.timeout = 18, .retry_count = 7});
      std::swap(base_.qp, queue_pairs_[i]);
    }
  }

  /// Writes a word to each of the peer's regions, by all queue pairs in turn.
  void write_to_peer() {
    for (std::size_t region = 0; region < regions_.size(); ++region) {
      const std::size_t qp = region % kScaleQueuePairs;
      const std::uint64_t word = region * 1000 + self_;
      std::memcpy(base_.buffer.data(), &word, sizeof word);
      Address there;
      there.rkey = plan_.keys[peer()][region];
      std::swap(base_.qp, queue_pairs_[qp]);
      demand(base_.rdma(IBV_WR_RDMA_WRITE, region, 0, sizeof word, there) == 0, "post_send");
      const std::optional<ibv_wc> done = base_.wait(std::chrono::seconds(60));
      std::swap(base_.qp, queue_pairs_[qp]);
      demand(done && done->status == IBV_WC_SUCCESS && done->wr_id == region, "a write");
    }
  }

  void check_memory() const {
    for (std::size_t region = 0; region < regions_.size(); ++region) {
      std::uint64_t word = 0;
      const auto offset = static_cast<off_t>(region % kScaleRegions * kRegionBytes);
      demand(::pread(files_[region / kScaleRegions].get(), &word, sizeof word, offset) ==
                     static_cast<ssize_t>(sizeof word) &&
                 word == region * 1000 + peer(),
             "the word that the peer wrote");
    }
  }

  Plan& plan_;
  std::size_t self_;
  Endpoint base_;
  std::vector<Fd> files_;
  std::vector<Mr> regions_;
  std::vector<Qp> queue_pairs_;
};

/// The body of a process. Returns its exit status.
int run_member(Plan& plan, std::size_t self) {
  const rlimit limit{kDescriptors, kDescriptors};
  ::setrlimit(RLIMIT_NOFILE, &limit);
  try {
    Member(plan, self).run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "process %zu: %s\n", self, error.what());
    return 1;
  }
}

TEST(Scale, ManyProcessesQueuePairsAndRegions) {
  void* memory =
      ::mmap(nullptr, sizeof(Plan), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  Plan& plan = *new (memory) Plan{};
  std::vector<pid_t> pids;
  for (std::size_t i = 0; i < kScaleProcesses; ++i) {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(run_member(plan, i));
    ASSERT_GT(pid, 0) << "fork() failed";
    pids.push_back(pid);
  }
  bool failed = false;
  for (std::size_t left = pids.size(); left != 0; --left) {
    int status = 0;
    const pid_t pid = ::wait(&status);
    EXPECT_EQ(status, 0) << "process " << pid;
    if (status == 0 || failed) continue;
    failed = true;  // the others would wait for it at the next meeting
    for (const pid_t other : pids) {
      if (other != pid) ::kill(other, SIGKILL);
    }
  }
  const Context context = open_device();
  ASSERT_NE(context, nullptr);
  EXPECT_EQ(records_of_others(), 0U);
  EXPECT_EQ(ring_bytes(), 0U);
  ::munmap(memory, sizeof(Plan));
}

/// Opens a NIC, uses it, and keeps it until told to end.
void take_part(const Line& line) {
  Pair pair;
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, pair.b.address()), 0);
  expect_completion(pair.a, 1);
  line.send(true);
  line.receive<bool>();
}

TEST(Scale, AsManyProcessesJoinAsAFabricHasRoomFor) {
  constexpr std::size_t kMost = 512;
  const Context context = open_device();
  ASSERT_NE(context, nullptr);
  std::vector<std::unique_ptr<Child>> others;
  while (others.size() < kFabricProcesses - 1) {
    others.push_back(std::make_unique<Child>(take_part));
    others.back()->line().receive<bool>();
  }
  if (kFabricProcesses == kMost) {
    Child one_more([](const Line&) {
      EXPECT_EQ(open_device(), nullptr);
      EXPECT_EQ(errno, EMFILE);
    });
    EXPECT_EQ(one_more.join(), 0);
  }
  others.front()->kill();
  EXPECT_EQ(others.front()->join(), -SIGKILL);
  others.front() = std::make_unique<Child>(take_part);
  others.front()->line().receive<bool>();
  EXPECT_GE(records_of_others(), kFabricProcesses - 1);
  others.clear();
  EXPECT_EQ(records_of_others(), 0U);
  EXPECT_EQ(ring_bytes(), 0U);
}

}  // namespace
}  // namespace hbmwire::test

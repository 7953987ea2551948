// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "emulation/common/fault_rule.hpp"
#include "emulation/tests/nic/child_process.hpp"
#include "emulation/tests/nic/endpoint.hpp"
#include "emulation/tests/nic/extended_endpoint.hpp"
#include "emulation/tests/nic/under_plan.hpp"
#include "emulation/tests/nic/window_steps.hpp"
#include "emulation/tests/nic/work_request.hpp"

/// Effects of a fault plan on requests, regions, links and processes.
namespace hbmwire::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr Timing kPatient{.timeout = 18, .retry_count = 7};  // 8.6 s in total

/// WRITEs 8 bytes from a to b, and expects that this completes with `status`.
void write_once(Pair& pair, ibv_wc_status status, std::size_t remote_offset = 0) {
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, pair.b.address(), remote_offset), 0);
  expect_completion(pair.a, 1, status);
}

/// Makes new queue pairs for both sides, with the existing memory.
void reconnect(Pair& pair) {
  pair.a.next_qp();
  pair.b.next_qp();
  pair.a.connect(pair.b.address());
  pair.b.connect(pair.a.address());
}

/// Three WRITEs in one call, of 8 bytes each to different places, and the call's error.
struct Chain {
  explicit Chain(const Pair& pair) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      elements[i] = pair.a.element(0, 8);
      requests[i] = rdma_request(IBV_WR_RDMA_WRITE, i + 1, pair.b.address());
      requests[i].wr.rdma.remote_addr += 64 * i;
      requests[i].sg_list = &elements[i];
      requests[i].num_sge = 1;
      if (i != 0) requests[i - 1].next = &requests[i];
    }
    error = ibv_post_send(pair.a.qp.get(), requests.data(), &bad);
  }

  std::array<ibv_send_wr, 3> requests{};
  std::array<ibv_sge, 3> elements{};
  ibv_send_wr* bad = nullptr;
  int error = 0;
};

TEST(Refusal, EndsAChainInItsMiddle) {
  if (!under_plan("fail,op=write,nth=2,errno=12")) return;
  Pair pair;
  pair.a.buffer.assign(pair.a.buffer.size(), 0x11);
  const Chain refused(pair);
  EXPECT_EQ(refused.error, ENOMEM);
  EXPECT_EQ(refused.bad, &refused.requests[1]);
  expect_completion(pair.a, 1);
  EXPECT_FALSE(pair.a.wait(20ms));
  EXPECT_EQ(pair.b.buffer[0], 0x11);
  EXPECT_EQ(pair.b.buffer[64], 0);
  EXPECT_EQ(pair.b.buffer[128], 0);
  const Chain whole(pair);
  EXPECT_EQ(whole.error, 0);
  for (std::uint64_t id = 1; id <= 3; ++id) expect_completion(pair.a, id);
}

TEST(Refusal, FailsAllRequestsOfOneBatch) {
  if (!under_plan("fail,op=write,nth=2,errno=12")) return;
  Extended a(IBV_QPT_RC);
  Endpoint b;
  a.connect(b.address());
  b.connect(a.address());
  // The first batch is refused as a whole. The second has no fault.
  for (const int error : {ENOMEM, 0}) {
    ibv_wr_start(a.ex);
    for (a.ex->wr_id = 1; a.ex->wr_id <= 3; ++a.ex->wr_id) {
      ibv_wr_rdma_write(a.ex, b.address().rkey, b.address().buffer);
      ibv_wr_set_sge(a.ex, a.mr->lkey, reinterpret_cast<std::uint64_t>(a.buffer.data()), 8);
    }
    EXPECT_EQ(ibv_wr_complete(a.ex), error);
    for (std::uint64_t id = 1; error == 0 && id <= 3; ++id) expect_completion(a, id);
    EXPECT_FALSE(a.wait(20ms));
  }
}

TEST(Revoke, HitsTheRegionThatAWriteReaches) {
  if (!under_plan("revoke,op=write,nth=2")) return;
  Pair pair;
  pair.a.buffer.assign(pair.a.buffer.size(), 0x11);
  write_once(pair, IBV_WC_SUCCESS);
  write_once(pair, IBV_WC_REM_ACCESS_ERR, 64);
  EXPECT_EQ(pair.b.buffer[0], 0x11);
  EXPECT_EQ(pair.b.buffer[64], 0);
  EXPECT_EQ(pair.b.wait_event(), IBV_EVENT_QP_ACCESS_ERR);
  reconnect(pair);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_READ, 3, 0, 8, pair.b.address()), 0);
  expect_completion(pair.a, 3, IBV_WC_REM_ACCESS_ERR);
  reconnect(pair);
  ASSERT_EQ(pair.b.send(4, 0, 8), 0);
  expect_completion(pair.b, 4, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(ibv_dereg_mr(pair.b.mr.release()), 0);
}

TEST(Revoke, HitsTheRegionOfAReceive) {
  if (!under_plan("revoke,op=send")) return;
  Pair pair;
  ASSERT_EQ(pair.b.post_recv(2, 0, 64), 0);
  ASSERT_EQ(pair.a.send(1, 0, 8), 0);
  expect_completion(pair.a, 1, IBV_WC_REM_OP_ERR);
  expect_completion(pair.b, 2, IBV_WC_LOC_PROT_ERR);
}

TEST(Revoke, HitsTheRegionBehindAWindow) {
  if (!under_plan("revoke,op=write,nth=2")) return;
  WindowPair pair;
  Mw window = bound_type_2(pair.b, part_of(pair.b, 0, 64, kRemoteWrite));
  EXPECT_EQ(reach(pair, IBV_WR_RDMA_WRITE, window->rkey, 0), IBV_WC_SUCCESS);
  EXPECT_EQ(reach(pair, IBV_WR_RDMA_WRITE, window->rkey, 0), IBV_WC_REM_ACCESS_ERR);
  window.reset();
  reconnect(pair);
  ASSERT_EQ(pair.b.send(4, 0, 8), 0);
  expect_completion(pair.b, 4, IBV_WC_LOC_PROT_ERR);
}

// The key of a region in another protection domain: the responder refuses it in any case, so the
// plan revokes no region by it.
TEST(Revoke, LeavesARegionOfAnotherDomainAlone) {
  if (!under_plan("revoke,op=write")) return;
  Pair pair;
  Endpoint stranger;
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, stranger.address()), 0);
  expect_completion(pair.a, 1, IBV_WC_REM_ACCESS_ERR);
  Endpoint peer;
  stranger.connect(peer.address());
  peer.connect(stranger.address());
  ASSERT_EQ(peer.post_recv(2, 0, 8), 0);
  ASSERT_EQ(stranger.send(3, 0, 8), 0);
  expect_completion(stranger, 3);
}

TEST(Revoke, HitsARegistration) {
  if (!under_plan("revoke,call=ibv_reg_dmabuf_mr,nth=2")) return;
  Pair pair;
  const Fd file(::memfd_create("dmabuf", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), 4096), 0);
  const auto use = [&](ibv_wc_status status) {
    const Mr mr(ibv_reg_dmabuf_mr(pair.b.pd.get(), 0, 4096, 0, file.get(), kAllAccess));
    ASSERT_NE(mr, nullptr);
    Address target = pair.b.address();
    target.buffer = 0;
    target.rkey = mr->rkey;
    ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, target), 0);
    expect_completion(pair.a, 1, status);
  };
  use(IBV_WC_SUCCESS);
  use(IBV_WC_REM_ACCESS_ERR);
  reconnect(pair);
  use(IBV_WC_SUCCESS);
}

ibv_port_state port_state(const Endpoint& at) {
  ibv_port_attr port{};
  EXPECT_EQ(ibv_query_port(at.context.get(), 1, &port), 0);
  return port.state;
}

TEST(LinkFault, GoesDownForATime) {
  if (!under_plan("link,op=write,nth=2,for=100")) return;
  Pair pair({}, {.device = "emu1"}, kPatient);
  write_once(pair, IBV_WC_SUCCESS);
  const auto before = Clock::now();
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, pair.b.address()), 0);
  EXPECT_EQ(pair.a.wait_event(), IBV_EVENT_PORT_ERR);
  EXPECT_EQ(pair.a.wait_event(5s), IBV_EVENT_PORT_ACTIVE);
  expect_completion(pair.a, 1);
  EXPECT_GE(Clock::now() - before, 100ms);
  EXPECT_FALSE(pair.b.wait_event(0ms)) << "its own port's link stayed up";
  write_once(pair, IBV_WC_SUCCESS);
}

TEST(LinkFault, GoesDownForGood) {
  if (!under_plan("link,op=send")) return;
  Pair pair({}, {.device = "emu1"});
  ASSERT_EQ(pair.b.post_recv(2, 0, 64), 0);
  ASSERT_EQ(pair.a.send(1, 0, 8), 0);
  expect_completion(pair.a, 1, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(port_state(pair.a), IBV_PORT_DOWN);
  EXPECT_EQ(port_state(pair.b), IBV_PORT_ACTIVE);
  EXPECT_FALSE(pair.b.wait(0ms));
}

TEST(LinkFault, TakesAllOpenNicsDownAtACall) {
  if (!under_plan("link,call=ibv_resize_cq,for=60000")) return;
  Pair pair({}, {.device = "emu1"});
  EXPECT_EQ(port_state(pair.a), IBV_PORT_ACTIVE);
  EXPECT_EQ(ibv_resize_cq(pair.a.cq.get(), 128), 0);
  EXPECT_EQ(port_state(pair.a), IBV_PORT_DOWN);
  EXPECT_EQ(port_state(pair.b), IBV_PORT_DOWN);
}

TEST(LinkFault, WithoutAnEndOutlastsAnEarlierOneWithAnEnd) {
  if (!under_plan("link,call=ibv_resize_cq,nth=1,for=100;link,call=ibv_resize_cq,nth=2")) return;
  const Endpoint here;
  EXPECT_EQ(ibv_resize_cq(here.cq.get(), 128), 0);
  EXPECT_EQ(ibv_resize_cq(here.cq.get(), 256), 0);
  ::usleep(400'000);
  EXPECT_EQ(port_state(here), IBV_PORT_DOWN);
}

// The thread that will take the link up sleeps meanwhile, for however long that is.
TEST(LinkFault, CostsNoCpuUntilItComesUp) {
  if (!under_plan("link,call=ibv_resize_cq,for=60000")) return;
  const Endpoint here;
  EXPECT_EQ(ibv_resize_cq(here.cq.get(), 128), 0);
  const std::clock_t before = std::clock();
  ::usleep(400'000);
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 5);
}

// The process whose request took the link down is dead, so another one must take it up.
TEST(LinkFault, ComesUpWithoutTheProcessThatTookItDown) {
  if (!under_plan("link,op=write,for=100")) return;
  Child child([](const Line& line) {
    Pair pair({}, {.device = "emu1"}, kPatient);
    ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, pair.b.address()), 0);
    EXPECT_EQ(pair.a.wait_event(), IBV_EVENT_PORT_ERR);
    line.send('d');  // the link is down
    line.receive<char>();
  });
  const Endpoint here;
  child.line().receive<char>();
  child.kill();
  EXPECT_EQ(child.join(), -SIGKILL);
  const auto end = Clock::now() + 10s;
  while (port_state(here) != IBV_PORT_ACTIVE && Clock::now() < end) ::usleep(1000);
  EXPECT_EQ(port_state(here), IBV_PORT_ACTIVE);
}

TEST(KillFault, KillsAProcessAtItsNthOperation) {
  if (!under_plan("kill,op=write,nth=2")) return;
  Endpoint here;
  Child child([](const Line& line) {
    Endpoint there;
    there.buffer.assign(there.buffer.size(), 0x22);
    const Address peer = line.exchange(there.address());
    there.connect(peer);
    line.receive<char>();  // the other end is ready
    ASSERT_EQ(there.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, peer), 0);
    there.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, peer, 64);  // kills this process
    line.send('a');                                    // it is still alive
  });
  here.connect(child.line().exchange(here.address()));
  child.line().send('r');
  EXPECT_EQ(child.join(), -SIGKILL);
  EXPECT_EQ(here.buffer[0], 0x22);
  EXPECT_EQ(here.buffer[64], 0);
}

TEST(KillFault, KillsAProcessAtItsNthCall) {
  const std::string plan = "kill,call=ibv_alloc_pd,nth=3";
  if (!is_under_plan(plan)) {
    EXPECT_EQ(status_of(start_under(plan)), SIGKILL);
    return;
  }
  const Context context = open_device();
  for (int i = 0; i < 2; ++i) const Pd pd(ibv_alloc_pd(context.get()));
  const Pd third(ibv_alloc_pd(context.get()));
  FAIL() << "the third call did not end this process";
}

/// A peer that is killed, and a request to it.
void outlive_a_peer() {
  Endpoint here;
  Child peer([](const Line& line) {
    const Endpoint there;
    line.send(there.address());
    line.receive<char>();
  });
  const auto there = peer.line().receive<Address>();
  here.connect(there);
  peer.kill();
  EXPECT_EQ(peer.join(), -SIGKILL);
  ASSERT_EQ(here.rdma(IBV_WR_RDMA_WRITE, 1, 0, 64, there), 0);
  expect_completion(here, 1, IBV_WC_RETRY_EXC_ERR);
}

/// A thread takes the locks of its requests again and again, so they favour it, until another
/// thread takes one.
void lose_a_favour() {
  constexpr unsigned kOften = 2000;
  Pair pair;
  for (unsigned i = 0; i < kOften; ++i) {
    ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, i, 0, 64, pair.b.address()), 0);
    expect_completion(pair.a, i);
  }
  std::thread([&] { EXPECT_EQ(pair.b.to(IBV_QPS_ERR), 0); }).join();
}

/// Makes and destroys objects, and posts requests that succeed and fail. This passes every step
/// except those of the connection manager.
void live_a_full_life() {
  outlive_a_peer();
  Pair pair;
  ASSERT_EQ(pair.b.post_recv(2, 0, 64), 0);
  ASSERT_EQ(pair.a.send(1, 0, 64), 0);
  expect_completion(pair.a, 1);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 64, pair.b.address()), 0);
  expect_completion(pair.a, 1);
  Address wrong = pair.b.address();
  wrong.rkey ^= 1U;
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 64, wrong), 0);
  expect_completion(pair.a, 1, IBV_WC_REM_ACCESS_ERR);
  lose_a_favour();
}

class KillAtStep : public ::testing::TestWithParam<std::string_view> {};

TEST_P(KillAtStep, EndsTheProcess) {
  const std::string plan = "kill,at=" + std::string(GetParam());
  if (!is_under_plan(plan)) {
    EXPECT_EQ(status_of(start_under(plan)), SIGKILL);
    return;
  }
  live_a_full_life();
}

INSTANTIATE_TEST_SUITE_P(All, KillAtStep,
                         ::testing::ValuesIn(emulation::kFaultSteps.begin(),
                                             emulation::kFaultSteps.end() - 2),
                         [](const auto& test) { return std::string(test.param); });
static_assert(emulation::kFaultSteps.end()[-2] == "cm_locked" &&
                  emulation::kFaultSteps.back() == "cm_telling",
              "emulation/tests/rdma_cm has these");

/// The processes that the threads of `parent` have started and that still exist.
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  const std::string tasks = "/proc/" + std::to_string(parent) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    std::ifstream file(task.path() / "children");
    for (pid_t child = 0; file >> child;) children.push_back(child);
  }
  return children;
}

/// Whether a process runs, and is not a zombie.
bool runs(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  const auto name_end = text.rfind(") ");
  return name_end != std::string::npos && text[name_end + 2] != 'Z' && text[name_end + 2] != 'X';
}

void expect_stopped(pid_t process) {
  int status = 0;
  ASSERT_EQ(::waitpid(process, &status, WUNTRACED), process);
  ASSERT_TRUE(WIFSTOPPED(status)) << status;
  EXPECT_EQ(WSTOPSIG(status), SIGSTOP);
}

TEST(StopFault, LastsForItsTimeAndLeavesNoHelper) {
  const std::string plan = "stop,op=write,nth=2,for=100";
  if (!is_under_plan(plan)) {
    const auto before = Clock::now();
    const pid_t child = start_under(plan);
    expect_stopped(child);
    EXPECT_EQ(status_of(child), 0) << "only the helper process can have continued it";
    EXPECT_GE(Clock::now() - before, 100ms);
    return;
  }
  Pair pair;
  write_once(pair, IBV_WC_SUCCESS);
  write_once(pair, IBV_WC_SUCCESS);
  EXPECT_EQ(::waitpid(-1, nullptr, static_cast<int>(__WALL)), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(StopFault, LastsUntilItIsContinued) {
  const std::string plan = "stop,at=responder_locked";
  if (is_under_plan(plan)) return live_a_full_life();
  const pid_t child = start_under(plan);
  expect_stopped(child);
  EXPECT_TRUE(children_of(child).empty());
  ::kill(child, SIGCONT);
  EXPECT_EQ(status_of(child), 0);
}

TEST(StopFault, ItsHelperEndsWithTheKilledProcess) {
  const std::string plan = "stop,call=ibv_alloc_pd,for=3600000";
  if (is_under_plan(plan)) return live_a_full_life();
  const pid_t child = start_under(plan);
  expect_stopped(child);
  const std::vector<pid_t> helpers = children_of(child);
  EXPECT_EQ(helpers.size(), 1U);
  ::kill(child, SIGKILL);
  EXPECT_EQ(status_of(child), SIGKILL);
  const auto end = Clock::now() + 10s;
  for (const pid_t helper : helpers) {
    while (runs(helper) && Clock::now() < end) ::usleep(1000);
    EXPECT_FALSE(runs(helper));
  }
}

}  // namespace
}  // namespace hbmwire::test

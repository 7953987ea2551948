// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "emulation/tests/nic/child_process.hpp"
#include "emulation/tests/nic/plugin.hpp"
#include "emulation/tests/survival/bounded.hpp"

/// Forked children, processes of other users, and processes that are stopped while they connect.
namespace hbmwire::test {
namespace {

/// man ibv_fork_init: a peer's writes go to the parent, even if either process has touched the page
/// since the fork. The child has its own copy.
TEST(Forked, WritesReachTheParentsMemoryAndNotTheChilds) {
  Pair pair;
  pair.a.buffer[0] = 'x';
  pair.b.buffer[100] = 'p';
  Child child([&](const Line& line) {
    pair.b.buffer[200] = 'c';  // has a page of its own from now on
    line.send(true);
    line.receive<bool>();
    line.send(pair.b.buffer[100]);
  });
  child.line().receive<bool>();
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 1, pair.b.address(), 100), 0);
  expect_completion(pair.a, 1);
  EXPECT_EQ(pair.b.buffer[100], 'x');
  EXPECT_EQ(pair.b.buffer[200], 0);
  child.line().send(true);
  EXPECT_EQ(child.line().receive<unsigned char>(), 'p');
  EXPECT_EQ(child.join(), 0);
}

/// The writes of a peer in another process go to the parent's pages as well.
TEST(Forked, WritesOfAnotherProcessReachTheParentsMemory) {
  Child writer([](const Line& line) {
    Endpoint self;
    self.buffer[0] = 'x';
    const Address peer = line.exchange(self.address());
    self.connect(peer);
    line.receive<bool>();
    ASSERT_EQ(self.rdma(IBV_WR_RDMA_WRITE, 1, 0, 1, peer, 100), 0);
    expect_completion(self, 1);
    line.send(true);
  });
  Endpoint self;
  self.connect(writer.line().exchange(self.address()));
  self.buffer[100] = 'p';
  Child child([&](const Line& line) {
    line.receive<bool>();
    line.send(self.buffer[100]);
  });
  self.buffer[101] = 'q';  // the parent's page is a copy now, and the child has the old one
  writer.line().send(true);
  writer.line().receive<bool>();
  EXPECT_EQ(self.buffer[100], 'x');
  child.line().send(true);
  EXPECT_EQ(child.line().receive<unsigned char>(), 'p');
  EXPECT_EQ(child.join(), 0);
  EXPECT_EQ(writer.join(), 0);
}

/// A child's calls that would destroy inherited objects fail, and the parent can still use them.
TEST(Forked, ChildCannotDestroyInheritedObjects) {
  Pair pair;
  Child child([&](const Line& line) {
    line.receive<bool>();
    EXPECT_EQ(ibv_dereg_mr(pair.a.mr.get()), EIO);
    EXPECT_EQ(ibv_destroy_qp(pair.a.qp.get()), EIO);
    line.send(true);
  });
  child.line().send(true);
  child.line().receive<bool>();
  EXPECT_EQ(child.join(), 0);
  ASSERT_EQ(pair.b.post_recv(1, 0, 64), 0);
  ASSERT_EQ(pair.a.send(2, 0, 64), 0);
  expect_completion(pair.a, 2);
  expect_completion(pair.b, 1);
}

TEST(OtherUsers, CanNeitherJoinNorReadNorReachMemory) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  const Endpoint self;
  const std::filesystem::path fabric = std::getenv("HBMWIRE_EMULATION_FABRIC");
  for (auto directory = fabric / "processes"; directory != "/dev/shm" && directory != "/";
       directory = directory.parent_path()) {
    struct stat status {};

    ASSERT_EQ(::stat(directory.c_str(), &status), 0);
    // The walk ends at a folder of all users, such as /tmp.
    if (status.st_uid != ::geteuid() || (status.st_mode & S_ISVTX) != 0) break;
    EXPECT_EQ(status.st_mode & 077U, 0U) << directory;
  }

  struct stat state {};

  ASSERT_EQ(::stat((fabric / "nic.shm").c_str(), &state), 0);
  EXPECT_EQ(state.st_mode & 0777U, 0600U);
  Child stranger([&](const Line& line) {
    constexpr uid_t kNobody = 65534;
    ASSERT_EQ(::setresgid(kNobody, kNobody, kNobody), 0);
    ASSERT_EQ(::setresuid(kNobody, kNobody, kNobody), 0);
    EXPECT_LT(::open((fabric / "nic.shm").c_str(), O_RDONLY), 0);
    EXPECT_EQ(errno, EACCES);
    EXPECT_EQ(open_device(), nullptr);
    line.send(true);
  });
  stranger.line().receive<bool>();
  EXPECT_EQ(stranger.join(), 0);
}

/// A process that is stopped or killed while it holds the connection manager's tables.
class ConnectionManager : public ::testing::TestWithParam<int> {};

TEST_P(ConnectionManager, GoesOnAfterAProcessStopsOrDiesInIt) {
  const Watchdog watchdog;
  const int signal = GetParam();
  Child child([signal](const Line& line) {
    rdma_event_channel* channel = rdma_create_event_channel();
    ASSERT_NE(channel, nullptr);
    set_step_trap("cm_locked", 1, signal);
    line.receive<bool>();
    rdma_cm_id* id = nullptr;
    ASSERT_EQ(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), 0);
    rdma_destroy_id(id);
    rdma_destroy_event_channel(channel);
  });
  rdma_event_channel* channel = rdma_create_event_channel();
  ASSERT_NE(channel, nullptr);
  ASSERT_EQ(::fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
  child.line().send(true);
  int status = 0;
  rdma_cm_id* id = nullptr;
  const auto create = [&] {
    return bounded("rdma_create_id",
                   [&] { return rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP); });
  };
  if (signal == SIGSTOP) {
    ASSERT_EQ(::waitpid(child.pid(), &status, WUNTRACED), child.pid());
    EXPECT_EQ(create(), -1);
    EXPECT_EQ(errno, EAGAIN);
    rdma_cm_event* event = nullptr;
    EXPECT_EQ(bounded("rdma_get_cm_event", [&] { return rdma_get_cm_event(channel, &event); }), -1);
    EXPECT_EQ(errno, EAGAIN);
    ::kill(child.pid(), SIGCONT);
    EXPECT_EQ(child.join(), 0);
  } else {
    EXPECT_EQ(child.join(), -SIGKILL);
  }
  ASSERT_EQ(create(), 0);
  EXPECT_EQ(rdma_destroy_id(id), 0);
  rdma_destroy_event_channel(channel);
  EXPECT_EQ(plugin_function<unsigned (*)()>("hbmwire_cm_live_records")(), 0U);
}

/// A program that is restarted at once gets the port of its killed predecessor.
TEST(ConnectionManagerAgain, BindsThePortOfTheDead) {
  const Watchdog watchdog;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto bind = [&address] {
    rdma_event_channel* channel = rdma_create_event_channel();
    rdma_cm_id* id = nullptr;
    if (channel == nullptr || rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) != 0) return errno;
    return rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)) == 0 ? 0 : errno;
  };
  address.sin_port = htons(20100);
  const Child first([&](const Line& line) {
    line.send(bind());
    line.receive<bool>();
  });
  ASSERT_EQ(first.line().receive<int>(), 0);
  Child second([&](const Line& line) {
    line.send(bind());
    line.receive<bool>();
    line.send(bind());
  });
  // The second has found that the first lives; it must ask again after the first's death.
  EXPECT_NE(second.line().receive<int>(), 0);
  first.kill();
  // The first has ended, but is not reaped: it is a zombie while the port is bound again.
  EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(first.pid()), nullptr, WEXITED | WNOWAIT), 0);
  second.line().send(true);
  EXPECT_EQ(second.line().receive<int>(), 0);
  EXPECT_EQ(second.join(), 0);
}

INSTANTIATE_TEST_SUITE_P(WhoWas, ConnectionManager, ::testing::Values(SIGSTOP, SIGKILL),
                         [](const auto& instance) {
                           return std::string(instance.param == SIGSTOP ? "Stopped" : "Killed");
                         });

}  // namespace
}  // namespace hbmwire::test

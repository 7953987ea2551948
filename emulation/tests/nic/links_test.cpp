// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <thread>

#include "emulation/tests/nic/endpoint.hpp"
#include "tests/support/change_link.hpp"

/// Links that go down and up (`hbmwire emulate --link`, in the node around this program). Runs with
/// --nics 2 --ports 2.
namespace hbmwire::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

struct PortEvent {
  ibv_event_type type;
  int port;

  bool operator==(const PortEvent&) const = default;
};

std::optional<PortEvent> take_event(const Context& context, int patience_ms = 2000) {
  pollfd ready{context->async_fd, POLLIN, 0};
  if (::poll(&ready, 1, patience_ms) != 1) return std::nullopt;
  ibv_async_event event{};
  if (ibv_get_async_event(context.get(), &event) != 0) return std::nullopt;
  ibv_ack_async_event(&event);
  return PortEvent{event.event_type, event.element.port_num};
}

std::string sysfs(const Context& context, const std::string& file) {
  std::ifstream stream(std::string(context->device->ibdev_path) + "/ports/" + file);
  std::string line;
  std::getline(stream, line);
  return line;
}

/// The links are up before and after each test, even if a test fails.
class Links : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_TRUE(change_link("emu0=up"));
    EXPECT_TRUE(change_link("emu1=up"));
  }
};

TEST_F(Links, ShowInThePortsState) {
  const Context context = open_device();
  ibv_port_attr port{};
  const int downs = std::stoi(sysfs(context, "2/counters/link_downed"));
  ASSERT_TRUE(change_link("emu0/2=down"));
  EXPECT_EQ(std::stoi(sysfs(context, "2/counters/link_downed")), downs + 1);
  ASSERT_EQ(ibv_query_port(context.get(), 2, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_DOWN);
  EXPECT_EQ(port.phys_state, 3) << "disabled";
  EXPECT_EQ(sysfs(context, "2/state"), "1: DOWN");
  EXPECT_EQ(sysfs(context, "2/phys_state"), "3: Disabled");
  ASSERT_EQ(ibv_query_port(context.get(), 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(sysfs(context, "1/state"), "4: ACTIVE");
  ASSERT_TRUE(change_link("emu0/2=up"));
  ASSERT_EQ(ibv_query_port(context.get(), 2, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.phys_state, 5);
  EXPECT_EQ(sysfs(context, "2/state"), "4: ACTIVE");
  EXPECT_EQ(sysfs(context, "2/phys_state"), "5: LinkUp");
  EXPECT_EQ(std::stoi(sysfs(context, "2/counters/link_downed")), downs + 1);
}

TEST_F(Links, TellEveryContextOfTheirNic) {
  const Context first = open_device("emu0");
  const Context second = open_device("emu0");
  const Context other = open_device("emu1");
  ASSERT_TRUE(change_link("emu0/2=down"));
  ASSERT_TRUE(change_link("emu0=down"));  // port 2 is down already
  ASSERT_TRUE(change_link("emu0/1=up"));
  for (const Context* context : {&first, &second}) {
    EXPECT_EQ(take_event(*context), (PortEvent{IBV_EVENT_PORT_ERR, 2}));
    EXPECT_EQ(take_event(*context), (PortEvent{IBV_EVENT_PORT_ERR, 1}));
    EXPECT_EQ(take_event(*context), (PortEvent{IBV_EVENT_PORT_ACTIVE, 1}));
    EXPECT_EQ(take_event(*context, 10), std::nullopt);
  }
  EXPECT_EQ(take_event(other, 10), std::nullopt);
  const Context late = open_device("emu0");
  EXPECT_EQ(take_event(late, 10), std::nullopt) << "it opened the NIC as it is";
}

TEST_F(Links, TellOtherProcesses) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const Context context = open_device();
    const char ready = 'r';
    if (::write(ends[1], &ready, 1) != 1) ::_exit(3);
    ::_exit(take_event(context) == PortEvent{IBV_EVENT_PORT_ERR, 1} ? 0 : 1);
  }
  char ready = 0;
  ASSERT_EQ(::read(ends[0], &ready, 1), 1);
  ASSERT_TRUE(change_link("emu0/1=down"));
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(Links, LoseNoEventThatDoesNotFit) {
  const Context context = open_device();
  // Leave room for one record of 16 bytes. The filler bytes are read back before the events.
  const int fd = ::open(("/proc/self/fd/" + std::to_string(context->async_fd)).c_str(),
                        O_RDWR | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(fd, 0);

  struct Record {
    std::uint64_t element;
    std::uint32_t type;
    std::uint32_t reserved;
  };

  const Record filler{1, IBV_EVENT_CLIENT_REREGISTER, 0};
  unsigned fillers = 0;
  while (::write(fd, &filler, sizeof filler) == static_cast<ssize_t>(sizeof filler)) ++fillers;
  Record one{};
  ASSERT_EQ(::read(fd, &one, sizeof one), static_cast<ssize_t>(sizeof one));
  --fillers;
  for (const char* change : {"emu0/1=down", "emu0/1=up", "emu0/1=down"})
    ASSERT_TRUE(change_link(change));
  for (unsigned i = 0; i < fillers; ++i)
    ASSERT_EQ(take_event(context), (PortEvent{IBV_EVENT_CLIENT_REREGISTER, 1}));
  EXPECT_EQ(take_event(context), (PortEvent{IBV_EVENT_PORT_ERR, 1}));
  EXPECT_EQ(take_event(context), (PortEvent{IBV_EVENT_PORT_ACTIVE, 1}));
  EXPECT_EQ(take_event(context), (PortEvent{IBV_EVENT_PORT_ERR, 1}));
  EXPECT_EQ(take_event(context, 10), std::nullopt);
  ::close(fd);
}

TEST_F(Links, LinksThatAreDownLetNothingThrough) {
  // The requester's link, then the responder's.
  for (const char* down : {"emu0/1=down", "emu1/2=down"}) {
    Pair pair({.device = "emu0", .port = 1}, {.device = "emu1", .port = 2});
    const Address peer = pair.b.address();
    ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, peer), 0);
    expect_completion(pair.a, 1);
    ASSERT_TRUE(change_link(down));
    pair.a.buffer[0] = 77;
    ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 2, 0, 8, peer), 0);
    expect_completion(pair.a, 2, IBV_WC_RETRY_EXC_ERR);
    EXPECT_EQ(pair.b.buffer[0], 0);
    EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
    EXPECT_EQ(pair.b.state(), IBV_QPS_RTS);
    ASSERT_TRUE(change_link("emu0=up"));
    ASSERT_TRUE(change_link("emu1=up"));
  }
}

TEST_F(Links, LinksThatAreDownDropUnawaitedMessages) {
  const Endpoint::Options here{.type = IBV_QPT_UC};
  const Endpoint::Options there{.device = "emu1", .type = IBV_QPT_UC, .port = 2};
  const Context context = open_device();
  for (const char* down : {"emu0/1=down", "emu1/2=down"}) {
    Pair pair(here, there);
    const int discards = std::stoi(sysfs(context, "1/counters/port_xmit_discards"));
    ASSERT_TRUE(change_link(down));
    pair.a.buffer[0] = 77;
    ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, pair.b.address()), 0);
    expect_completion(pair.a, 1);
    EXPECT_EQ(pair.b.buffer[0], 0);
    ASSERT_TRUE(change_link("emu0=up"));
    ASSERT_TRUE(change_link("emu1=up"));
    pair.a.buffer[0] = 78;
    ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 2, 0, 8, pair.b.address()), 0);
    expect_completion(pair.a, 2);
    EXPECT_EQ(pair.b.buffer[0], 78);
    pair.a.qp.reset();
    EXPECT_EQ(std::stoi(sysfs(context, "1/counters/port_xmit_discards")) - discards,
              down == std::string("emu0/1=down") ? 1 : 0);
  }
}

TEST_F(Links, LinksOfOtherPortsDoNotMatter) {
  Pair pair({.device = "emu0", .port = 1}, {.device = "emu1", .port = 2});
  ASSERT_TRUE(change_link("emu0/2=down"));
  ASSERT_TRUE(change_link("emu1/1=down"));
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, pair.b.address()), 0);
  expect_completion(pair.a, 1);
}

TEST_F(Links, LinksThatComeUpInTimeLetRequestsGoOn) {
  // 4.096 us * 2^18 = 1.07 s for each of 8 tries.
  Pair pair({}, {}, {.timeout = 18, .retry_count = 7});
  ASSERT_TRUE(change_link("emu0/1=down"));
  for (const std::uint64_t id : {1U, 2U, 3U})
    ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, id, 0, 8, pair.b.address()), 0);
  EXPECT_EQ(pair.a.wait(20ms), std::nullopt);
  ASSERT_TRUE(change_link("emu0/1=up"));
  for (const std::uint64_t id : {1U, 2U, 3U}) expect_completion(pair.a, id);
}

TEST_F(Links, LinksThatComeUpWakeSleepers) {
  // No thread polls, so the helper thread must make the completion channel readable.
  Pair pair({.with_channel = true}, {}, {.timeout = 0});  // 0: it waits for ever
  ASSERT_EQ(ibv_req_notify_cq(pair.a.cq.get(), 0), 0);
  ASSERT_TRUE(change_link("emu0/1=down"));
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, pair.b.address()), 0);
  pollfd ready{pair.a.channel->fd, POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, 50), 0);
  ASSERT_TRUE(change_link("emu0/1=up"));
  EXPECT_EQ(::poll(&ready, 1, 2000), 1);
  expect_completion(pair.a, 1);
}

TEST_F(Links, ChangesOfMissingLinksAreRefused) {
  EXPECT_FALSE(change_link("emu2=down"));
  EXPECT_FALSE(change_link("emu0/3=down"));
  EXPECT_FALSE(change_link("emu0/0=down"));
  EXPECT_FALSE(change_link("emu0=sideways"));
  EXPECT_FALSE(change_link("mlx5_0=down"));
}

}  // namespace
}  // namespace hbmwire::test

// SPDX-License-Identifier: MIT
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "emulation/tests/nic/plugin.hpp"
#include "emulation/tests/rdma_cm/cm_handles.hpp"

/// Two processes, one of which dies without closing anything. The kernel closes a dead process'
/// files, so its peers get events as if it had destroyed its ids: cm.c, cm_destroy_id.
namespace hbmwire::test {
namespace {

// A death is noticed within a fifth of a second, but the machine may be busy.
constexpr int kDeathMs = 1500;
// InfiniBand's numbers for two reasons of a REJ, and for a status of a SIDR reply.
constexpr int kNoSuchService = 8;
constexpr int kByConsumer = 28;
constexpr int kSidrRejected = 2;

/// Passes a number between the two processes.
class Line {
 public:
  explicit Line(int fd) : fd_(fd) {}

  void send(std::uint16_t value) const {
    if (::write(fd_, &value, sizeof value) != sizeof value) throw std::runtime_error("line");
  }

  std::uint16_t receive() const {
    std::uint16_t value = 0;
    if (::read(fd_, &value, sizeof value) != sizeof value) throw std::runtime_error("line");
    return value;
  }

  /// Whether a number has come, or the other end is closed.
  [[nodiscard]] bool is_ready() const {
    pollfd entry{fd_, POLLIN, 0};
    return ::poll(&entry, 1, 0) == 1;
  }

  [[nodiscard]] int fd() const { return fd_; }

  void close() const { ::close(fd_); }

 private:
  int fd_;
};

/// A forked child that runs `body` and then waits to be killed. It must be made before this process
/// connects: from then on this process has a second thread, which might hold the lock of
/// AddressSanitizer's allocator during the fork, and the child would have it locked for ever.
class Child {
 public:
  explicit Child(const std::function<void(const Line&)>& body) : line_(-1) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      throw std::runtime_error("socketpair");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::close(ends[0]);
      try {
        body(Line(ends[1]));
        ::pause();
      } catch (const std::exception& error) {
        std::fprintf(stderr, "child: %s\n", error.what());
      }
      ::_exit(1);
    }
    ::close(ends[1]);
    line_ = Line(ends[0]);
  }

  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  ~Child() {
    kill();
    line_.close();
  }

  [[nodiscard]] const Line& line() const { return line_; }

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  Line line_;
  pid_t pid_ = 0;
};

/// A child's body: listens and sends the port. If `accepts`, it accepts one request and sends a
/// number when the connection is established.
void listen(const Line& line, rdma_port_space space, bool accepts) {
  Listener listener(space);
  line.send(listener.address.port());
  if (accepts) {
    const Id passive = own(listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST, 0, 10000));
    Parameters parameters;
    if (rdma_accept(passive.get(), &parameters.value) != 0) throw std::runtime_error("accept");
    listener.channel.expect(RDMA_CM_EVENT_ESTABLISHED);
    line.send(1);
    ::pause();
  }
  ::pause();
}

/// A child's body: connects to the parent's listener. Sends 1 when the request is sent, and 2 when
/// the connection is established.
void connect(const Line& line, Address to) {
  EventChannel channel;
  const Id active = resolved_id(channel, to);
  Parameters parameters;
  if (rdma_connect(active.get(), &parameters.value) != 0) throw std::runtime_error("connect");
  line.send(1);
  channel.expect(RDMA_CM_EVENT_CONNECT_RESPONSE, 0, 10000);
  if (rdma_establish(active.get()) != 0) throw std::runtime_error("establish");
  line.send(2);
  ::pause();
}

TEST(Peers, ServerThatDiesDisconnectsItsClient) {
  Child child([](const Line& line) { listen(line, RDMA_PS_TCP, true); });
  EventChannel channel;
  const Id active = resolved_id(channel, nic_address(0, child.line().receive()));
  Parameters parameters;
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  channel.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
  ASSERT_EQ(rdma_establish(active.get()), 0);
  child.line().receive();
  child.kill();
  channel.expect(RDMA_CM_EVENT_DISCONNECTED, 0, kDeathMs);
}

TEST(Peers, ClientThatDiesDisconnectsItsServer) {
  Listener listener;
  Child child([&](const Line& line) { connect(line, listener.address); });
  const Id passive = own(listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST));
  Parameters parameters;
  ASSERT_EQ(rdma_accept(passive.get(), &parameters.value), 0);
  listener.channel.expect(RDMA_CM_EVENT_ESTABLISHED);
  child.kill();
  EXPECT_EQ(listener.channel.expect(RDMA_CM_EVENT_DISCONNECTED, 0, kDeathMs).id, passive.get());
}

TEST(Peers, ListenerThatDiesRejectsWaitingRequests) {
  Child child([](const Line& line) { listen(line, RDMA_PS_TCP, false); });
  EventChannel channel;
  const Id active = resolved_id(channel, nic_address(0, child.line().receive()));
  Parameters parameters;
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  EXPECT_FALSE(channel.is_ready(50));
  child.kill();
  channel.expect(RDMA_CM_EVENT_REJECTED, kByConsumer, kDeathMs);
}

TEST(Peers, DatagramListenerThatDiesIsUnreachable) {
  Child child([](const Line& line) { listen(line, RDMA_PS_UDP, false); });
  EventChannel channel;
  const Id active = resolved_id(channel, nic_address(0, child.line().receive()), RDMA_PS_UDP);
  Parameters parameters;
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  child.kill();
  channel.expect(RDMA_CM_EVENT_UNREACHABLE, kSidrRejected, kDeathMs);
}

TEST(Peers, ListenerThatDiedDoesNotListen) {
  Child child([](const Line& line) { listen(line, RDMA_PS_TCP, false); });
  EventChannel channel;
  const Id active = resolved_id(channel, nic_address(0, child.line().receive()));
  child.kill();
  Parameters parameters;
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  channel.expect(RDMA_CM_EVENT_REJECTED, kNoSuchService, kDeathMs);
}

TEST(Peers, ClientThatDiedCanNotBeAccepted) {
  Listener listener;
  Child child([&](const Line& line) { connect(line, listener.address); });
  const Id passive = own(listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST));
  child.kill();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  Parameters parameters;
  EXPECT_EQ(rdma_accept(passive.get(), &parameters.value), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST(Peers, PortOfTheDeadIsFree) {
  Child child([](const Line& line) { listen(line, RDMA_PS_TCP, false); });
  const std::uint16_t port = child.line().receive();
  EventChannel channel;
  const Id id = make_id(channel);
  EXPECT_EQ(rdma_bind_addr(id.get(), nic_address(0, port).get()), -1);
  EXPECT_EQ(errno, EADDRINUSE);
  child.kill();
  // The kernel is asked at most every 10 ms whether a process is alive.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(rdma_bind_addr(id.get(), nic_address(0, port).get()), 0);
}

TEST(Peers, DisconnectingPeerThatDiesIsNotWaitedFor) {
  Child child([](const Line& line) { listen(line, RDMA_PS_TCP, true); });
  EventChannel channel;
  const Id active = resolved_id(channel, nic_address(0, child.line().receive()));
  Parameters parameters;
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  channel.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
  ASSERT_EQ(rdma_establish(active.get()), 0);
  child.line().receive();
  create_qp(active.get());
  ASSERT_EQ(rdma_disconnect(active.get()), 0);
  EXPECT_FALSE(channel.is_ready(50));
  child.kill();
  channel.expect(RDMA_CM_EVENT_DISCONNECTED, 0, kDeathMs);
}

/// Connects to a listener and establishes the connection.
Id establish(const EventChannel& channel, Address to) {
  Id active = resolved_id(channel, to);
  Parameters parameters;
  if (rdma_connect(active.get(), &parameters.value) != 0) throw std::runtime_error("connect");
  channel.expect(RDMA_CM_EVENT_CONNECT_RESPONSE, 0, 10000);
  if (rdma_establish(active.get()) != 0) throw std::runtime_error("establish");
  return active;
}

/// A child's body: receives a port, and connects to it again and again until killed.
void connect_for_ever(const Line& line) {
  const Address to = nic_address(0, line.receive());
  line.send(1);
  while (true) {
    EventChannel channel;
    const Id active = establish(channel, to);
    channel.expect(RDMA_CM_EVENT_DISCONNECTED, 0, 10000);
  }
}

/// The side that ends an established connection.
enum class Ends : std::uint8_t { here, there };

/// Accepts requests for `time`, and destroys ids whose connection has ended. With Ends::here it
/// also destroys an id that is just established. Errors are ignored: this side goes on, whatever
/// happens to its peers.
void serve(const Listener& listener, std::chrono::microseconds time, Ends ends = Ends::here) {
  const auto until = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < until) {
    if (!listener.channel.is_ready(1)) continue;
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(listener.channel.get(), &event) != 0) continue;
    const rdma_cm_event_type type = event->event;
    rdma_cm_id* const id = event->id;
    rdma_ack_cm_event(event);
    Parameters parameters;
    if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      if (rdma_accept(id, &parameters.value) != 0) rdma_destroy_id(id);
    } else if (type != RDMA_CM_EVENT_ESTABLISHED || ends == Ends::here) {
      rdma_destroy_id(id);
    }
  }
}

/// Serves until no peer has any records left, for at most 5 s. Returns the number of records.
unsigned serve_the_rest(const Listener& listener, unsigned before) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (live_records() != before && std::chrono::steady_clock::now() < deadline) {
    serve(listener, std::chrono::milliseconds(50));
  }
  return live_records();
}

// A process may die at any point, even with the tables' lock held: the next holder repairs the
// tables.
TEST(Peers, AProcessThatDiesAnywhereLeavesNoRecords) {
  constexpr int kDeaths = 40;
  std::vector<std::unique_ptr<Child>> children(kDeaths);
  for (auto& child : children) child = std::make_unique<Child>(connect_for_ever);
  Listener listener;
  const unsigned before = live_records();
  for (int i = 0; i < kDeaths; ++i) {
    Child& child = *children[static_cast<std::size_t>(i)];
    child.line().send(listener.address.port());
    child.line().receive();
    // Each child lives for another time, and so they die at many points.
    serve(listener, std::chrono::microseconds(500 * (i % 17) + 137 * i));
    child.kill();
  }
  EXPECT_EQ(serve_the_rest(listener, before), before);
}

/// A child's body: receives a port, connects to it and disconnects once. It dies at its n-th
/// arrival at the step "cm_telling", or sends 1 if there are fewer arrivals.
void connect_until_step(const Line& line, int nth) {
  const Address to = nic_address(0, line.receive());
  set_step_trap("cm_telling", nth, SIGKILL);
  EventChannel channel;
  {
    const Id active = establish(channel, to);
    if (rdma_disconnect(active.get()) != 0) throw std::runtime_error("disconnect");
  }
  line.send(1);
}

// A step changes both ends of a connection and sends an event to the other end. If a process dies
// half way, no step remains that has changed only the process' own end.
TEST(Peers, AProcessThatDiesAtAnyStepLeavesNoRecords) {
  constexpr int kMostSteps = 30;
  std::vector<std::unique_ptr<Child>> children;
  for (int nth = 1; nth <= kMostSteps; ++nth) {
    children.push_back(
        std::make_unique<Child>([nth](const Line& line) { connect_until_step(line, nth); }));
  }
  Listener listener;
  const unsigned before = live_records();
  int deaths = 0;
  for (auto& child : children) {
    child->line().send(listener.address.port());
    while (!child->line().is_ready()) serve(listener, std::chrono::milliseconds(5), Ends::there);
    // A child that has died sends nothing; its end of the line is closed.
    std::uint16_t sent = 0;
    const bool lives = ::read(child->line().fd(), &sent, sizeof sent) == sizeof sent;
    child->kill();
    deaths += lives ? 0 : 1;
    EXPECT_EQ(serve_the_rest(listener, before), before) << "step " << deaths;
    if (lives) break;
  }
  // The step comes before and after an event is queued: for the child's own two events of
  // resolving, and for its peer's three events, of the request, of being established and of the
  // end.
  EXPECT_GE(deaths, 10);
  EXPECT_LT(deaths, kMostSteps);
}

/// A child's body: after it receives a number, it joins the fabric and so repairs what a dead
/// process has left. It dies at the first step "cm_telling" of that repair.
void reap_until_step(const Line& line) {
  line.receive();
  set_step_trap("cm_telling", 1, SIGKILL);
  const EventChannel channel;
}

TEST(Peers, DeathIsReportedByTheNextProcessIfTheReporterDies) {
  Child reaper(reap_until_step);
  Child client([](const Line& line) { connect(line, nic_address(0, line.receive())); });
  Listener listener;
  client.line().send(listener.address.port());
  const Id passive = own(listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST));
  Parameters parameters;
  ASSERT_EQ(rdma_accept(passive.get(), &parameters.value), 0);
  listener.channel.expect(RDMA_CM_EVENT_ESTABLISHED);
  client.kill();
  reaper.line().send(1);
  EXPECT_EQ(listener.channel.expect(RDMA_CM_EVENT_DISCONNECTED, 0, kDeathMs).id, passive.get());
}

TEST(Peers, AListenersDeathIsReportedByTheNextProcessIfTheReporterDies) {
  Child reaper(reap_until_step);
  Child child([](const Line& line) { listen(line, RDMA_PS_TCP, false); });
  EventChannel channel;
  const Id active = resolved_id(channel, nic_address(0, child.line().receive()));
  Parameters parameters;
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  EXPECT_FALSE(channel.is_ready(50));
  child.kill();
  reaper.line().send(1);
  channel.expect(RDMA_CM_EVENT_REJECTED, kByConsumer, kDeathMs);
}

}  // namespace
}  // namespace hbmwire::test

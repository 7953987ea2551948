// SPDX-License-Identifier: MIT
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <thread>

#include "emulation/tests/rdma_cm/cm_handles.hpp"

/// Two processes, one of which dies without a word. The kernel closes a dead process' files, so
/// that its peers are told as if it had destroyed its ids: cm.c, cm_destroy_id.
namespace hbmwire::test {
namespace {

// A death is noticed within a fifth of a second; the machine may be busy.
constexpr int kDeathMs = 1500;
constexpr int kNoSuchService = 8;
constexpr int kByConsumer = 28;
constexpr int kSidrRejected = 2;

/// A number, there and back.
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

  void close() const { ::close(fd_); }

 private:
  int fd_;
};

/// A forked child that does `body` and then waits for its end.
class Child {
 public:
  explicit Child(const std::function<void(const Line&)>& body) : line_(-1) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      throw std::runtime_error("socketpair");
    pid_ = ::fork();
    if (pid_ == 0) {
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

/// Listens and says where; accepts one request if it is to.
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

/// Connects to the parent's listener; says when it has asked, and when it is through.
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

TEST(Peers, ListenerThatDiesRejectsWhatWaits) {
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
  // Whether a process lives is asked of the kernel every 10 ms at most.
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

/// Connects for as long as it lives.
void connect_for_ever(const Line& line, Address to) {
  line.send(1);
  while (true) {
    EventChannel channel;
    const Id active = resolved_id(channel, to);
    Parameters parameters;
    if (rdma_connect(active.get(), &parameters.value) != 0) throw std::runtime_error("connect");
    channel.expect(RDMA_CM_EVENT_CONNECT_RESPONSE, 0, 10000);
    if (rdma_establish(active.get()) != 0) throw std::runtime_error("establish");
    channel.expect(RDMA_CM_EVENT_DISCONNECTED, 0, 10000);
  }
}

/// Accepts what comes, and ends what is established, for that long. Whatever happens to peers, this
/// side must go on.
void serve(const Listener& listener, std::chrono::microseconds time) {
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
    } else {
      rdma_destroy_id(id);
    }
  }
}

// A process may die at any point, also with the tables' lock held: the next one puts in order what
// it left.
TEST(Peers, DyingAnywhereLeavesNothing) {
  constexpr int kDeaths = 40;
  Listener listener;
  const unsigned before = live_records();
  for (int i = 0; i < kDeaths; ++i) {
    // Children are forked by the thread that serves, since no other may be inside librdmacm then.
    Child child([&](const Line& line) { connect_for_ever(line, listener.address); });
    child.line().receive();
    serve(listener, std::chrono::microseconds(500 * (i % 17) + 137 * i));
    child.kill();
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (live_records() != before && std::chrono::steady_clock::now() < deadline) {
    serve(listener, std::chrono::milliseconds(50));
  }
  EXPECT_EQ(live_records(), before);
}

}  // namespace
}  // namespace hbmwire::test

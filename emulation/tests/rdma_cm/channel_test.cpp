// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "emulation/tests/rdma_cm/cm_handles.hpp"

/// Event channels as files, and the channel that gets an event: rdma_create_event_channel(3),
/// rdma_get_cm_event(3), rdma_migrate_id(3), and the kernel's ucma.c.
namespace hbmwire::test {
namespace {

/// Causes an ADDR_RESOLVED on the channel of the id.
void cause_event(const Id& id) {
  ASSERT_EQ(rdma_resolve_addr(id.get(), nullptr, nic_address(0, 7000).get(), kTimeoutMs), 0);
}

TEST(Channel, ANonBlockingChannelAnswersEagainWithoutAnEvent) {
  EventChannel channel;
  channel.set_nonblocking();
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(rdma_get_cm_event(channel.get(), &event), -1);
  EXPECT_EQ(errno, EAGAIN);
  const Id id = make_id(channel);
  cause_event(id);
  channel.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(rdma_get_cm_event(channel.get(), &event), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST(Channel, PollIsReadyWhileThereAreEvents) {
  EventChannel channel;
  EXPECT_FALSE(channel.is_ready(0));
  const Id first = make_id(channel);
  const Id second = make_id(channel);
  cause_event(first);
  cause_event(second);
  EXPECT_TRUE(channel.is_ready(0));
  channel.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_TRUE(channel.is_ready(0));
  channel.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_FALSE(channel.is_ready(0));
}

TEST(Channel, EdgeTriggeredEpollSeesEveryEvent) {
  EventChannel channel;
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event interest{};
  interest.events = EPOLLIN | EPOLLET;
  ASSERT_EQ(::epoll_ctl(epoll, EPOLL_CTL_ADD, channel.fd(), &interest), 0);
  epoll_event seen{};
  const Id first = make_id(channel);
  const Id second = make_id(channel);
  cause_event(first);
  EXPECT_EQ(::epoll_wait(epoll, &seen, 1, kTimeoutMs), 1);
  EXPECT_EQ(::epoll_wait(epoll, &seen, 1, 0), 0);
  cause_event(second);
  EXPECT_EQ(::epoll_wait(epoll, &seen, 1, kTimeoutMs), 1);
  channel.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  channel.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  ::close(epoll);
}

TEST(Channel, ABlockingChannelWaitsForTheEvent) {
  EventChannel channel;
  const Id id = make_id(channel);
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    cause_event(id);
  });
  rdma_cm_event* event = nullptr;
  ASSERT_EQ(rdma_get_cm_event(channel.get(), &event), 0);
  EXPECT_EQ(event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
  rdma_ack_cm_event(event);
  later.join();
}

TEST(Channel, EventsOfManyIdsAreNotLost) {
  constexpr int kIds = 500;
  EventChannel channel;
  std::vector<Id> ids;
  for (int i = 0; i < kIds; ++i) {
    ids.push_back(make_id(channel));
    cause_event(ids.back());
  }
  for (int i = 0; i < kIds; ++i) {
    EXPECT_EQ(channel.expect(RDMA_CM_EVENT_ADDR_RESOLVED).id,
              ids[static_cast<std::size_t>(i)].get());
  }
  EXPECT_FALSE(channel.is_ready(0));
}

TEST(Channel, ThreadsShareTheEvents) {
  constexpr int kEvents = 200;
  EventChannel channel;
  std::atomic<int> seen{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] {
      for (int n = 0; n < kEvents / 4; ++n) {
        rdma_cm_event* event = nullptr;
        if (rdma_get_cm_event(channel.get(), &event) != 0) return;
        rdma_ack_cm_event(event);
        seen.fetch_add(1);
      }
    });
  }
  std::vector<Id> ids;
  for (int i = 0; i < kEvents; ++i) {
    ids.push_back(make_id(channel));
    cause_event(ids.back());
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(seen.load(), kEvents);
  EXPECT_FALSE(channel.is_ready(0));
}

// ucma.c, ucma_free_ctx: an id's unread events are dropped, and destroying it does not wait for
// them.
TEST(Channel, DestroyingAnIdDropsItsUnreadEvents) {
  EventChannel channel;
  Id id = make_id(channel);
  const Id other = make_id(channel);
  cause_event(id);
  cause_event(other);
  id.reset();
  EXPECT_EQ(channel.expect(RDMA_CM_EVENT_ADDR_RESOLVED).id, other.get());
  EXPECT_FALSE(channel.is_ready(0));
}

// rdma_destroy_id(3): waits until the events that were read are acknowledged.
TEST(Channel, DestroyingAnIdWaitsForAcknowledgement) {
  EventChannel channel;
  Id id = make_id(channel);
  cause_event(id);
  rdma_cm_event* event = nullptr;
  ASSERT_EQ(rdma_get_cm_event(channel.get(), &event), 0);
  std::atomic<bool> destroyed{false};
  std::thread destroyer([&] {
    id.reset();
    destroyed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(destroyed.load());
  rdma_ack_cm_event(event);
  destroyer.join();
}

TEST(Channel, SignalInterruptsTheWait) {
  EventChannel channel;

  struct sigaction action {};

  action.sa_handler = [](int) {};
  ::sigaction(SIGUSR1, &action, nullptr);
  const pthread_t self = ::pthread_self();
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ::pthread_kill(self, SIGUSR1);
  });
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(rdma_get_cm_event(channel.get(), &event), -1);
  EXPECT_EQ(errno, EINTR);
  later.join();
  ::signal(SIGUSR1, SIG_DFL);
}

TEST(Migrate, EventsFollowTheId) {
  EventChannel from;
  EventChannel to;
  const Id id = make_id(from);
  cause_event(id);
  ASSERT_EQ(rdma_migrate_id(id.get(), to.get()), 0);
  EXPECT_EQ(id->channel, to.get());
  EXPECT_FALSE(from.is_ready(0));
  to.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  ASSERT_EQ(rdma_resolve_route(id.get(), kTimeoutMs), 0);
  to.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

TEST(Migrate, RequestsFollowTheirListener) {
  EventChannel to;
  Listener listener;
  EventChannel channel;
  const Id active = resolved_id(channel, listener.address);
  Parameters parameters;
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  ASSERT_EQ(rdma_migrate_id(listener.id.get(), to.get()), 0);
  listener.channel.close();
  const Id passive = own(to.expect(RDMA_CM_EVENT_CONNECT_REQUEST));
  ASSERT_EQ(rdma_accept(passive.get(), &parameters.value), 0);
  channel.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
}

// rdma_create_id(3): without a channel, calls are synchronous.
TEST(Synchronous, CallsWaitForTheirEvent) {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP), 0);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, nic_address(0, 4).get(), kTimeoutMs), 0);
  EXPECT_EQ(id->event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
  ASSERT_EQ(rdma_resolve_route(id, kTimeoutMs), 0);
  create_qp(id);
  EXPECT_EQ(rdma_connect(id, nullptr), -1);
  EXPECT_EQ(errno, ECONNREFUSED);
  rdma_destroy_qp(id);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST(Records, ConnectionsLeaveNoRecords) {
  // By its first channel the process joins the fabric; before that live_records() answers 0.
  { const EventChannel warm_up; }
  const unsigned before = live_records();
  {
    ConnectedPair pair;
    EventChannel extra;
    const Id unread = make_id(extra);
    cause_event(unread);
    EXPECT_GT(live_records(), before);
  }
  EXPECT_EQ(live_records(), before);
}

TEST(Records, AChannelClosedByCloseLeavesNoRecords) {
  // By its first channel the process joins the fabric; before that live_records() answers 0.
  { const EventChannel warm_up; }
  const unsigned before = live_records();
  {
    rdma_event_channel* const channel = rdma_create_event_channel();
    ASSERT_NE(channel, nullptr);
    rdma_cm_id* id = nullptr;
    ASSERT_EQ(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), 0);
    ::close(channel->fd);
    // librdmacm's memory of the id is lost. Its kernel side has gone with the file.
  }
  { const EventChannel another; }  // its creation notices the closed one
  EXPECT_EQ(live_records(), before);
}

// As for verbs (man ibv_fork_init), a child does not have its parent's objects.
TEST(Fork, ChildHasNoObjectsOfItsParentAndCanMakeItsOwn) {
  Listener listener;
  const pid_t child = ::fork();
  if (child == 0) {
    rdma_cm_id* id = nullptr;
    const bool inherited =
        rdma_create_id(listener.channel.get(), &id, nullptr, RDMA_PS_TCP) == 0 || errno != EIO;
    rdma_event_channel* const own_channel = rdma_create_event_channel();
    const bool own_works =
        own_channel != nullptr && rdma_create_id(own_channel, &id, nullptr, RDMA_PS_TCP) == 0;
    ::_exit((inherited ? 1 : 0) + (own_works ? 0 : 2));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EventChannel channel;
  const Id active = resolved_id(channel, listener.address);
  Parameters parameters;
  ASSERT_EQ(rdma_connect(active.get(), &parameters.value), 0);
  const Id passive = own(listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST));
}

}  // namespace
}  // namespace hbmwire::test

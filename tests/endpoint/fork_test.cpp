// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <string>
#include <thread>

#include "hbmwire/fd.hpp"
#include "hbmwire/memory_key.hpp"

#include "ends.hpp"
#include "in_child.hpp"
#include "internals.hpp"

// Endpoints and fork(2): a child may destroy its copies. Nothing that it does reaches the peer or
// disturbs its parent. With a NIC, and without one.
namespace hbmwire::test {
namespace {

std::set<int> descriptors() {
  std::set<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    found.insert(std::stoi(entry.path().filename()));
  return found;
}

class EndpointFork : public ::testing::TestWithParam<bool> {
 protected:
  void run_for(std::chrono::nanoseconds time) {
    ends_->drive([until = Deadline::after(time)] { return until.passed(); });
  }

  void expect_works(Endpoint& endpoint) {
    const RemoteRegion there = value(endpoint.remote(value(RemoteKey::unpack(key_.bytes()))));
    Transfer put = value(endpoint.put(memory_.slice(0, 64), there.slice(2048, 64)));
    finish(*ends_, put);
    EXPECT_EQ(endpoint.phase(), EndpointPhase::ready);
  }

  std::set<int> earlier_ = descriptors();
  std::optional<Ends> ends_{std::in_place, EndpointOptions{},
                            WorkerOptions{.max_transfers = 64, .progress_thread = GetParam()}};
  Memory memory_{ends_->context, MemoryType::host, 4096};
  MemoryKey key_ = value(MemoryKey::pack(memory_.region()));
  RemoteRegion remote_ = value(ends_->a->remote(value(RemoteKey::unpack(key_.bytes()))));
  std::vector<TransferPart> parts_{{memory_.slice(0, 64), remote_.slice(512, 64)}};
};

TEST_P(EndpointFork, AChildMayOnlyDropItsCopies) {
  Transfer earlier = value(ends_->a->put(memory_.slice(0, 64), remote_.slice(2048, 64)));
  Transfer receive = value(ends_->a->receive(memory_.slice(1024, 64)));
  std::optional<PreparedTransfer> list = value(ends_->a->prepare_put(parts_));
  good(ends_->listener.advertise("target", memory_.region()));
  EXPECT_TRUE(passes_in_child([&] {
    Endpoint& endpoint = *ends_->a;
    const Slice some = memory_.slice(0, 64);
    expect_inherited(endpoint.put(some, remote_.slice(0, 64)));
    expect_inherited(endpoint.put(some, remote_.slice(0, 64), {.immediate = 1}));
    expect_inherited(endpoint.get(some, remote_.slice(0, 64)));
    expect_inherited(endpoint.fetch_add(remote_.slice(0, 8), 1));
    expect_inherited(endpoint.compare_swap(remote_.slice(0, 8), 1, 2));
    expect_inherited(endpoint.prepare_put(parts_));
    expect_inherited(endpoint.prepare_put({}));
    expect_inherited(endpoint.prepare_get(parts_));
    const BlockTable blocks = value(BlockTable::create(std::array{memory_.all()}, 64));
    const RemoteBlockTable there =
        value(RemoteBlockTable::create(std::array{remote_.slice(0, 64)}, 64));
    constexpr std::array<std::uint32_t, 1> kFirst{0};
    expect_inherited(endpoint.put_blocks(blocks, kFirst, there, kFirst));
    expect_inherited(endpoint.get_blocks(blocks, kFirst, there, kFirst));
    expect_inherited(list->post());
    expect_inherited(endpoint.send(some));
    expect_inherited(endpoint.send({}, 5));
    expect_inherited(endpoint.receive(some));
    expect_inherited(endpoint.receive({}, TagMatch{5}));
    expect_inherited(endpoint.receive_immediate());
    expect_inherited(endpoint.flush());
    expect_inherited(endpoint.fence());
    expect_inherited(endpoint.remote("target", within(1s)));
    expect_inherited(endpoint.remote(value(RemoteKey::unpack(key_.bytes()))));
    expect_inherited(endpoint.close(within(1s)));
    expect_inherited(endpoint.reconnect(within(1s)));
    expect_inherited(receive.poll());
    expect_inherited(receive.wait(1s));
    expect_inherited(receive.cancel());
    expect_inherited(receive.request_cancel());
    expect_inherited(receive.poll_until(within(1s)));
    expect_inherited(ends_->a_worker.wait_any({&receive, 1}, within(1s)));
    expect_inherited(ends_->a_worker.wait_all({&receive, 1}, within(1s)));
    EXPECT_FALSE(ends_->a_worker.next_done());
    EXPECT_FALSE(ends_->a_worker.next_message());
    expect_inherited(ends_->a_worker.arm());
    expect_inherited(ends_->a_worker.wait(within(1s)));
    expect_inherited(ends_->a_worker.flush(some));
    EXPECT_EQ(ends_->a_worker.progress(), 0U);
    expect_inherited(Endpoint::connect(ends_->a_worker, endpoint.peer(), within(1s)));
    const Deadline soon = Deadline::after(1s);
    expect_inherited(Endpoint::start_connect(ends_->a_worker, endpoint.peer(), soon));
    expect_inherited(endpoint.start_remote("target", soon));
    expect_inherited(endpoint.start_close(soon));
    expect_inherited(endpoint.start_reconnect(soon));
    expect_inherited(EndpointInvitation::create(ends_->a_worker));
    expect_inherited(Listener::create(ends_->a_worker, {.address = "127.0.0.1"}));
    expect_inherited(ends_->listener.accept(within(1s)));
    EXPECT_FALSE(ends_->listener.try_accept());
    expect_inherited(ends_->listener.addresses());
    expect_inherited(ends_->listener.advertise("another", memory_.region()));
    expect_inherited(ends_->listener.withdraw("target"));
    list.reset();
    earlier.reset();
    receive.reset();
    ends_.reset();
  }));
  Transfer listed = value(list->post());
  Transfer send = value(ends_->b->send(memory_.slice(0, 64)));
  for (Transfer* const each : {&earlier, &listed, &send, &receive}) finish(*ends_, *each);
  expect_works(*ends_->a);
  expect_works(*ends_->b);
}

TEST_P(EndpointFork, AChildMayAskForTheStateOfItsCopies) {
  Transfer over = value(ends_->a->put(memory_.slice(0, 64), remote_.slice(2048, 64)));
  finish(*ends_, over);
  Transfer receive = value(ends_->a->receive(memory_.slice(1024, 64)));
  const std::string peer = ends_->a->peer();
  EXPECT_TRUE(passes_in_child([&] {
    EXPECT_TRUE(over.done());
    EXPECT_EQ(over.bytes(), 64U);
    EXPECT_TRUE(over.settled());
    EXPECT_FALSE(receive.done());
    EXPECT_EQ(ends_->a->phase(), EndpointPhase::ready);
    EXPECT_FALSE(ends_->a->error());
    EXPECT_EQ(ends_->a->peer(), peer);
    EXPECT_EQ(ends_->a->placement(), Placement::same_process);
  }));
  Transfer send = value(ends_->b->send(memory_.slice(0, 64)));
  for (Transfer* const each : {&send, &receive}) finish(*ends_, *each);
}

TEST_P(EndpointFork, AChildTakesNoNotificationOfItsParent) {
  Transfer receive = value(ends_->a->receive(memory_.slice(1024, 64)));
  receive.notify(1);
  const Deadline end = Deadline::after(10s);
  while (!value(ends_->a_worker.arm()) && !end.passed()) {
  }
  Transfer over = value(ends_->a->put(memory_.slice(0, 64), remote_.slice(2048, 64)));
  finish(*ends_, over);
  while (!value(ends_->a_worker.arm()) && !end.passed()) {
  }
  pollfd entry{ends_->a_worker.fd(), POLLIN, 0};
  EXPECT_TRUE(passes_in_child([&] {
    over.notify(2);  // the parent must not be notified
    EXPECT_FALSE(ends_->a_worker.next_done());
  }));
  EXPECT_EQ(::poll(&entry, 1, 0), 0);
  good(receive.request_cancel());
  EXPECT_EQ(::poll(&entry, 1, 0), 1);
  EXPECT_TRUE(passes_in_child([&] { EXPECT_FALSE(ends_->a_worker.next_done()); }));
  EXPECT_EQ(::poll(&entry, 1, 0), 1) << "the child has taken the parent's notification";
  const auto done = ends_->a_worker.next_done();
  ASSERT_TRUE(done);
  EXPECT_EQ(done->cookie, 1U);
  EXPECT_EQ(::poll(&entry, 1, 0), 0);
}

TEST_P(EndpointFork, AListThatTheParentPreparedIsNotTheChilds) {
  PreparedTransfer list = value(ends_->a->prepare_put(parts_));
  memory_.fill(3);
  EXPECT_TRUE(passes_in_child([&] { expect_inherited(list.post()); }));
  run_for(50ms);
  EXPECT_TRUE(same_bytes(memory_.contents(), pattern(4096, 3))) << "the child has put";
  Transfer put = value(list.post());
  finish(*ends_, put);
}

TEST_P(EndpointFork, AChildThatDropsAListenerLeavesThePeersThatWaitThere) {
  std::optional<Endpoint> second;
  beside(ends_->b_worker, [&] {
    second.emplace(value(Endpoint::connect(ends_->a_worker, ends_->a->peer(), within(20s))));
  });
  ends_->drive([&] { return internals::look_at(ends_->b_worker).waiting_peers != 0; });
  EXPECT_TRUE(passes_in_child([&] { const Listener goes = std::move(ends_->listener); }));
  run_for(50ms);
  Endpoint accepted = value(ends_->listener.accept(within(10s)));
  expect_works(*second);
  expect_works(accepted);
}

TEST_P(EndpointFork, AChildMayDropPendingOperations) {
  const Deadline until = Deadline::after(10s);
  std::optional<PendingEndpoint> connects =
      value(Endpoint::start_connect(ends_->b_worker, ends_->a->peer(), until));
  std::optional<PendingRegion> asks = value(ends_->a->start_remote("nothing", until));
  EXPECT_TRUE(passes_in_child([&] {
    expect_inherited(connects->take());
    expect_inherited(asks->take());
    connects.reset();
    asks.reset();
  }));
  ends_->drive([&] { return connects->transfer().done() && asks->transfer().done(); });
  Endpoint another = value(connects->take());
  expect_works(another);
  EXPECT_EQ(asks->take().error().code, Errc::not_found);
  std::optional<Transfer> closes = value(another.start_close(until));
  EXPECT_TRUE(passes_in_child([&] { closes.reset(); }));
  ends_->drive([&] { return closes->done(); });
  EXPECT_EQ(another.phase(), EndpointPhase::closed);
}

TEST_P(EndpointFork, APendingOperationThatAChildDropsIsClosedSilently) {
  // A port that accepts connections but never answers.
  const Fd silent{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  // listen(2) takes a free port if there was no bind(2).
  ASSERT_EQ(::listen(silent.get(), 1), 0);
  sockaddr_in at{};
  socklen_t size = sizeof at;
  ASSERT_EQ(::getsockname(silent.get(), reinterpret_cast<sockaddr*>(&at), &size), 0);
  const std::string where = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
  std::optional<PendingEndpoint> connects =
      value(Endpoint::start_connect(ends_->a_worker, where, Deadline::after(60s)));
  connects->transfer().notify(7);
  run_for(50ms);
  // Without a thread, the peer makes no progress from here on, so the close stays pending.
  std::optional<Transfer> closes;
  if (!GetParam()) closes = value(ends_->a->start_close(Deadline::after(60s)));
  if (closes) closes->notify(8);
  // Makes progress until nothing is left to do, so the descriptor stays quiet.
  for (int i = 0; i < 1000 || !value(ends_->a_worker.arm()); ++i) ends_->a_worker.progress();
  EXPECT_TRUE(passes_in_child([&] {
    const std::size_t before = descriptors().size();
    connects.reset();
    // A worker with a thread is not released in the child.
    EXPECT_EQ(descriptors().size() < before, !GetParam());
    closes.reset();
    ends_.reset();
  }));
  pollfd told{ends_->a_worker.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&told, 1, 0), 0);
  EXPECT_FALSE(ends_->a_worker.next_done());
  EXPECT_FALSE(connects->transfer().done());
  EXPECT_FALSE(closes && closes->done());
}

TEST_P(EndpointFork, AChildMayDropAnInvitationThatHasBegun) {
  EndpointInvitation mine = value(EndpointInvitation::create(ends_->a_worker));
  EndpointInvitation theirs = value(EndpointInvitation::create(ends_->b_worker));
  good(mine.start(theirs.bytes()));
  EXPECT_TRUE(passes_in_child([&] {
    expect_inherited(mine.poll());
    expect_inherited(theirs.start(mine.bytes()));
    expect_inherited(theirs.connect(mine.bytes(), within(1s)));
    { const EndpointInvitation goes = std::move(mine); }
    const EndpointInvitation goes = std::move(theirs);
  }));
  good(theirs.start(mine.bytes()));
  std::optional<Endpoint> here;
  std::optional<Endpoint> there;
  ends_->drive([&] {
    if (!here) here = value(mine.poll());
    if (!there) there = value(theirs.poll());
    return here && there;
  });
  expect_works(*here);
  expect_works(*there);
}

TEST_P(EndpointFork, NoDescriptorOutlivesExecve) {
  for (const int fd : descriptors()) {
    const std::filesystem::path link = "/proc/self/fd/" + std::to_string(fd);
    std::error_code closed;  // the descriptor of this listing itself is already closed
    const std::string target = std::filesystem::read_symlink(link, closed);
    const bool of_hardware = target.find("/hbmwire-") != std::string::npos;
    if (closed || of_hardware || earlier_.contains(fd)) continue;
    EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0) << target;
  }
}

INSTANTIATE_TEST_SUITE_P(Workers, EndpointFork, ::testing::Bool(), [](const auto& with) {
  return std::string(with.param ? "with_a_thread" : "without");
});

}  // namespace
}  // namespace hbmwire::test

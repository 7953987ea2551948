// SPDX-License-Identifier: MIT
#include <poll.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "ends.hpp"

/// Endpoints that hand out their messages (docs/endpoint.md, "Messages with their sender").
namespace hbmwire::test {
namespace {

/// Whether `memory` begins with `bytes`.
bool begins_with(Memory& memory, std::span<const std::byte> bytes) {
  const std::vector<std::byte> all = memory.contents();
  return std::ranges::equal(std::span(all).first(bytes.size()), bytes);
}

/// A worker whose endpoints hand out their messages, and peers that send to it.
class Incoming : public testing::Test {
 protected:
  struct Peer {
    Worker worker;
    std::optional<Endpoint> endpoint;
    std::optional<Endpoint> served;  // the serving worker's end of the connection
  };

  explicit Incoming(const WorkerOptions& options = {}) {
    worker_.emplace(value(Worker::create(context_, options)));
  }

  void serve(EndpointOptions options = {}) {
    options.messages = MessageMode::handed_out;
    options_ = options;
    listener_.emplace(
        value(Listener::create(*worker_, {.address = "127.0.0.1", .endpoint = options})));
  }

  Peer& connect() {
    if (!listener_) serve();
    EndpointOptions options = options_;
    options.messages = MessageMode::matched;
    Peer& peer = peers_.emplace_back(Peer{value(Worker::create(context_)), {}, {}});
    beside(*worker_, [&] {
      peer.endpoint.emplace(value(Endpoint::connect(
          peer.worker, "127.0.0.1:" + std::to_string(listener_->port()), within(10s), options)));
    });
    peer.served.emplace(value(listener_->accept(within(10s))));
    return peer;
  }

  void drive() {
    worker_->progress();
    for (Peer& peer : peers_) peer.worker.progress();
  }

  template <class Over>
  void drive_until(const Over& over) {
    const Deadline end = Deadline::after(10s);
    while (!over()) {
      drive();
      if (!end.passed()) continue;
      ADD_FAILURE() << "not over in time";
      return;
    }
  }

  IncomingMessage next() {
    std::optional<IncomingMessage> message;
    drive_until([&] { return (message = worker_->next_message()).has_value(); });
    return message ? std::move(*message) : IncomingMessage();
  }

  void finish(Transfer& transfer) {
    drive_until([&] { return transfer.done(); });
    EXPECT_TRUE(value(transfer.poll()));
  }

  Context context_ = value(Context::create());
  Memory source_{context_, MemoryType::host, 1 << 20};
  Memory target_{context_, MemoryType::host, 1 << 20};
  EndpointOptions options_;
  std::optional<Worker> worker_;
  std::optional<Listener> listener_;
  std::deque<Peer> peers_;
};

TEST_F(Incoming, MessagesSayTheirSenderTagAndLength) {
  source_.fill(1);
  const std::vector<std::byte> sent = source_.contents();
  std::map<std::uint64_t, std::uint64_t> seen;  // number of messages from each sender
  for (int i = 0; i < 3; ++i) connect();
  for (std::uint64_t round = 0; round < 20; ++round) {
    for (Peer& peer : peers_) {
      const std::uint64_t bytes = round * 37;
      Transfer send = round % 2 == 0 ? value(peer.endpoint->send(source_.slice(5, bytes)))
                                     : value(peer.endpoint->send(source_.slice(5, bytes), round));
      const IncomingMessage message = next();
      ASSERT_TRUE(message);
      EXPECT_EQ(message.endpoint_id(), peer.served->id());
      EXPECT_EQ(message.length_bytes(), bytes);
      EXPECT_EQ(message.tag(), round % 2 == 0 ? std::nullopt : std::optional(round));
      ASSERT_TRUE(message.is_here());
      EXPECT_TRUE(std::ranges::equal(message.bytes(), std::span(sent).subspan(5, bytes)));
      ++seen[message.endpoint_id()];
      finish(send);
    }
  }
  EXPECT_EQ(seen.size(), 3U);
  for (const auto& [sender, count] : seen) EXPECT_EQ(count, 20U) << sender;
  EXPECT_FALSE(worker_->next_message());
}

TEST_F(Incoming, MessagesComeInTheirOrderWhateverTheirTags) {
  Peer& peer = connect();
  std::vector<Transfer> sends;
  for (std::uint64_t i = 0; i < 40; ++i) {
    source_.set(std::vector<std::byte>(1 << 20, static_cast<std::byte>(i)));
    Transfer send = i % 3 == 0 ? value(peer.endpoint->send(source_.slice(0, 8)))
                               : value(peer.endpoint->send(source_.slice(0, 8), 100 - i));
    finish(send);
  }
  for (std::uint64_t i = 0; i < 40; ++i) EXPECT_EQ(next().bytes()[0], static_cast<std::byte>(i));
}

TEST_F(Incoming, LargeMessagesAreReceivedWhereTheProgramWants) {
  source_.fill(2);
  Peer& peer = connect();
  Transfer send = value(peer.endpoint->send(source_.all(), 9));
  IncomingMessage message = next();
  EXPECT_FALSE(message.is_here());
  EXPECT_TRUE(message.bytes().empty());
  EXPECT_EQ(message.length_bytes(), 1U << 20U);
  EXPECT_EQ(message.tag(), 9U);
  EXPECT_FALSE(send.done());
  // A receive that cannot take the message is refused. Another receive can still take it.
  const Memory sealed(context_, MemoryType::host, 1 << 20, Access::remote_read);
  EXPECT_FALSE(message.receive(sealed.all()));
  ASSERT_TRUE(message);
  Transfer receive = value(message.receive(target_.all()));
  EXPECT_FALSE(message);
  finish(receive);
  finish(send);
  EXPECT_EQ(receive.bytes(), 1U << 20U);
  EXPECT_EQ(receive.value(), 9U);
  EXPECT_TRUE(target_.contents() == source_.contents());
}

TEST_F(Incoming, SmallMessagesMayBeReceivedToo) {
  source_.fill(3);
  Peer& peer = connect();
  Transfer send =
      value(peer.endpoint->send(source_.slice(0, 500), {.level = CompletionLevel::arrived}));
  IncomingMessage message = next();
  Transfer receive = value(message.receive(target_.slice(0, 500)));
  finish(receive);
  finish(send);
  const std::vector<std::byte> sent = source_.contents();
  EXPECT_TRUE(begins_with(target_, std::span(sent).first(500)));
}

TEST_F(Incoming, MessagesAreReceivedIntoDeviceMemory) {
  source_.fill(6);
  const std::vector<std::byte> sent = source_.contents();
  Peer& peer = connect();
  for (const MemoryType type : {MemoryType::gaudi, MemoryType::cuda}) {
    for (const std::uint64_t bytes : {std::uint64_t{100}, std::uint64_t{1} << 20U}) {
      Memory device(context_, type, 1 << 20);
      Transfer send = value(peer.endpoint->send(source_.slice(0, bytes)));
      Transfer receive = value(next().receive(device.slice(0, bytes)));
      finish(receive);
      finish(send);
      EXPECT_TRUE(begins_with(device, std::span(sent).first(bytes)));
    }
  }
}

TEST_F(Incoming, LargeMessagesThatAreLetGoFailAtTheirSenderAlone) {
  Peer& peer = connect();
  for (int i = 0; i < 100; ++i) {
    Transfer send = value(peer.endpoint->send(source_.all()));
    next().reset();
    drive_until([&] { return send.done(); });
    const auto over = send.poll();
    ASSERT_FALSE(over);
    EXPECT_EQ(over.error().code, Errc::cancelled);
    EXPECT_EQ(over.error().hint, Hint::message_let_go);
    EXPECT_TRUE(send.settled());
  }
  EXPECT_EQ(peer.endpoint->phase(), EndpointPhase::ready);
  Transfer send = value(peer.endpoint->send(source_.slice(0, 8)));
  finish(send);
  EXPECT_EQ(next().length_bytes(), 8U);
}

TEST_F(Incoming, MessagesLongerThanTheirReceiveFailAtBothEnds) {
  Peer& peer = connect();
  Transfer send = value(peer.endpoint->send(source_.all()));
  Transfer receive = value(next().receive(target_.slice(0, 1000)));
  drive_until([&] { return receive.done() && send.done(); });
  EXPECT_EQ(receive.poll().error().hint, Hint::message_truncated);
  EXPECT_EQ(send.poll().error().hint, Hint::message_truncated);
  EXPECT_EQ(peer.endpoint->phase(), EndpointPhase::ready);
}

TEST_F(Incoming, MessagesHoldTheirPlacesUntilTheyAreLetGo) {
  serve({.receive_depth = 4, .unexpected_bytes = 0});
  Peer& peer = connect();
  std::vector<Transfer> sends;
  for (int i = 0; i < 50; ++i) sends.push_back(value(peer.endpoint->send(source_.slice(0, 100))));
  std::deque<IncomingMessage> held;
  const Deadline soon = Deadline::after(200ms);
  while (!soon.passed()) {
    drive();
    if (auto message = worker_->next_message()) held.push_back(std::move(*message));
  }
  EXPECT_EQ(held.size(), 4U);
  std::size_t came = held.size();
  const Deadline end = Deadline::after(10s);
  while (came < 50 && !end.passed()) {
    if (!held.empty()) held.pop_front();
    drive();
    if (auto message = worker_->next_message()) {
      ++came;
      held.push_back(std::move(*message));
    }
  }
  EXPECT_EQ(came, 50U);
  for (Transfer& send : sends) finish(send);
}

TEST_F(Incoming, MessagesHaveArrivedWhenTheyAreHandedOut) {
  // Read in their receive buffers, and copied elsewhere.
  for (const std::uint32_t depth : {4U, 64U}) {
    serve({.receive_depth = depth});
    Peer& peer = connect();
    std::vector<Transfer> sends;
    for (std::uint32_t i = 0; i < 3 * depth; ++i) {
      sends.push_back(
          value(peer.endpoint->send(source_.slice(0, 100), {.level = CompletionLevel::arrived})));
    }
    const Deadline soon = Deadline::after(50ms);
    while (!soon.passed()) drive();
    EXPECT_TRUE(std::ranges::none_of(sends, &Transfer::done));
    for (Transfer& send : sends) {
      const IncomingMessage message = next();
      finish(send);  // although the program still holds the message
    }
    EXPECT_FALSE(worker_->next_message());
  }
}

TEST_F(Incoming, EndpointsThatHandOutMessagesTakeNoReceives) {
  Peer& peer = connect();
  const auto receive = peer.served->receive(target_.slice(0, 8));
  ASSERT_FALSE(receive);
  EXPECT_EQ(receive.error().code, Errc::invalid_argument);
  // The other end does not hand out messages, so it receives by matching.
  Transfer answer = value(peer.endpoint->receive(target_.slice(0, 8)));
  Transfer send = value(peer.served->send(source_.slice(0, 8)));
  finish(send);
  finish(answer);
  EXPECT_FALSE(worker_->next_message());
  EXPECT_FALSE(peer.worker.next_message());
}

TEST_F(Incoming, MessagesOutliveTheirEndpointAndTheWorkersHandle) {
  source_.fill(4);
  Peer& peer = connect();
  for (int i = 0; i < 3; ++i) {
    Transfer send = value(peer.endpoint->send(source_.slice(0, 100)));
    finish(send);
  }
  std::optional<IncomingMessage> message = next();
  const std::uint64_t id = peer.served->id();
  peer.served.reset();
  EXPECT_FALSE(worker_->next_message())
      << "messages that were not handed out went with their endpoint";
  const Deadline soon = Deadline::after(300ms);
  while (!soon.passed()) drive();
  listener_.reset();
  worker_.reset();
  EXPECT_EQ(message->endpoint_id(), id);
  EXPECT_EQ(message->bytes().size(), 100U);
  EXPECT_TRUE(begins_with(source_, message->bytes()));
  // The message's bytes can still be moved where the program wants them.
  Transfer receive = value(message->receive(target_.slice(0, 100)));
  EXPECT_TRUE(receive.done());
}

TEST_F(Incoming, MessagesOfAPeerThatEndedAreStillThere) {
  source_.fill(5);
  Peer& peer = connect();
  Transfer small = value(peer.endpoint->send(source_.slice(0, 100)));
  Transfer large = value(peer.endpoint->send(source_.all()));
  drive_until([&] { return small.done(); });
  for (int i = 0; i < 1000; ++i) drive();
  peer.endpoint.reset();
  drive_until([&] {
    return peer.served->phase() != EndpointPhase::ready &&
           peer.served->phase() != EndpointPhase::ending;
  });
  IncomingMessage first = next();
  EXPECT_EQ(first.bytes().size(), 100U);
  EXPECT_TRUE(begins_with(source_, first.bytes()));
  IncomingMessage second = next();
  EXPECT_EQ(second.length_bytes(), 1U << 20U);
  EXPECT_FALSE(second.receive(target_.all()));
  EXPECT_TRUE(second);
}

TEST_F(Incoming, MessagesOfAnEndpointThatIsNotAcceptedYetWait) {
  serve();
  Peer& peer = peers_.emplace_back(Peer{value(Worker::create(context_)), {}, {}});
  beside(*worker_, [&] {
    peer.endpoint.emplace(value(Endpoint::connect(
        peer.worker, "127.0.0.1:" + std::to_string(listener_->port()), within(10s))));
  });
  Transfer send = value(peer.endpoint->send(source_.slice(0, 8)));
  finish(send);
  const Deadline soon = Deadline::after(50ms);
  while (!soon.passed()) EXPECT_FALSE(worker_->next_message());
  peer.served.emplace(value(listener_->accept(within(10s))));
  const IncomingMessage message = next();
  EXPECT_EQ(message.endpoint_id(), peer.served->id());
}

TEST_F(Incoming, MessagesOfAPeerThatDiedAreReceivedIntoHostMemory) {
  Peer& peer = connect();
  Transfer send = value(peer.endpoint->send(source_.slice(0, 100)));
  finish(send);
  IncomingMessage message = next();
  // `waits` is in flight when the peer ends, so the endpoint fails instead of being closed.
  Transfer large = value(peer.endpoint->send(source_.all()));
  drive_until([&] { return worker_->next_message().has_value(); });
  Transfer waits = value(peer.served->send(source_.all()));
  peer.endpoint.reset();
  drive_until([&] { return peer.served->phase() == EndpointPhase::failed; });
  Memory device(context_, MemoryType::gaudi, 4096);
  const auto refused = message.receive(device.slice(0, 100));
  EXPECT_FALSE(refused);
  ASSERT_TRUE(message) << "a refused receive leaves the message";
  Transfer receive = value(message.receive(target_.slice(0, 100)));
  EXPECT_TRUE(value(receive.poll()));
}

TEST_F(Incoming, MessagesThatWereNotHandedOutGoWithTheirEndpoint) {
  Peer& peer = connect();
  std::vector<Transfer> sends;
  for (int i = 0; i < 20; ++i) {
    sends.push_back(value(peer.endpoint->send(i % 2 == 0 ? source_.slice(0, 8) : source_.all(),
                                              {.level = CompletionLevel::arrived})));
  }
  for (int i = 0; i < 2000; ++i) drive();
  peer.served.reset();
  EXPECT_FALSE(worker_->next_message());
  drive_until([&] { return std::ranges::all_of(sends, &Transfer::done); });
  for (Transfer& send : sends) EXPECT_FALSE(send.poll());
}

TEST_F(Incoming, MessagesMakeTheWorkersDescriptorReadable) {
  Peer& peer = connect();
  const auto sleeps = [&] {
    const Deadline end = Deadline::after(10s);
    while (!value(worker_->arm()) && !end.passed()) {
      while (worker_->progress() != 0) {
      }
    }
    pollfd entry{worker_->fd(), POLLIN, 0};
    return ::poll(&entry, 1, 0) == 0;
  };
  EXPECT_TRUE(sleeps());
  Transfer send = value(peer.endpoint->send(source_.slice(0, 8)));
  pollfd entry{worker_->fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 10000), 1);
  for (int i = 0; i < 100; ++i) worker_->progress();
  EXPECT_FALSE(value(worker_->arm())) << "a message waits for next_message()";
  EXPECT_EQ(next().length_bytes(), 8U);
  EXPECT_TRUE(sleeps());
}

class IncomingByAThread : public Incoming {
 protected:
  IncomingByAThread() : Incoming({.progress_thread = true}) {}
};

TEST_F(IncomingByAThread, MessagesMakeTheWorkersDescriptorReadable) {
  Peer& peer = connect();
  for (int i = 0; i < 20; ++i) {
    const Deadline end = Deadline::after(10s);
    while (!value(worker_->arm()) && !end.passed()) {
    }
    Transfer send = value(peer.endpoint->send(source_.slice(0, 8)));
    pollfd entry{worker_->fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&entry, 1, 10000), 1);
    EXPECT_TRUE(worker_->next_message());
    EXPECT_EQ(::poll(&entry, 1, 0), 0);
    good(send.wait(within(10s)));
  }
}

}  // namespace
}  // namespace hbmwire::test

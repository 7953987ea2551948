// SPDX-License-Identifier: MIT
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <thread>

#include "ends.hpp"

namespace hbmwire::test {
namespace {

void expect_error(Ends& ends, Transfer& transfer, Errc code, Hint hint) {
  ends.drive([&] { return transfer.done(); });
  const auto over = transfer.poll();
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, code) << describe(over.error());
  EXPECT_EQ(over.error().hint, hint);
}

std::vector<std::byte> part_of(const std::vector<std::byte>& bytes, std::uint64_t offset,
                               std::uint64_t length) {
  return {bytes.begin() + static_cast<std::ptrdiff_t>(offset),
          bytes.begin() + static_cast<std::ptrdiff_t>(offset + length)};
}

using Pair = std::tuple<MemoryType, MemoryType>;

class Messages : public ::testing::TestWithParam<Pair> {};

TEST_P(Messages, AnySizeArrivesWhole) {
  const auto [from, to] = GetParam();
  Ends ends;
  Memory source(ends.context, from, kMessageBytes);
  Memory target(ends.context, to, kMessageBytes);
  unsigned seed = 1;
  // Around the longest inlined message (88 bytes) and the longest eager one (8,192).
  for (const std::uint64_t size :
       {0UL, 1UL, 31UL, 88UL, 89UL, 4095UL, 8192UL, 8193UL, 65537UL, kMessageBytes}) {
    source.fill(++seed);
    target.fill(++seed);
    auto expected = pattern(kMessageBytes, seed);
    const auto sent = pattern(kMessageBytes, seed - 1);
    const std::uint64_t at = size == kMessageBytes ? 0 : 13;
    std::copy_n(sent.begin(), size, expected.begin() + static_cast<std::ptrdiff_t>(at));
    Transfer receive = value(ends.b->receive(target.slice(at, kMessageBytes - at)));
    Transfer send = value(ends.a->send(source.slice(0, size)));
    finish(ends, receive);
    finish(ends, send);
    EXPECT_EQ(receive.bytes(), size);
    EXPECT_TRUE(same_bytes(target.contents(), expected)) << size;
    const bool at_once = size == 0 || (from == MemoryType::host && size <= 8192);
    EXPECT_EQ(send.explain().protocol, size == 0    ? Protocol::inlined
                                       : !at_once   ? Protocol::rendezvous_read
                                       : size <= 88 ? Protocol::inlined
                                                    : Protocol::eager)
        << size;
    EXPECT_EQ(send.explain().protocol, receive.explain().protocol);
    if (size == 0) continue;
    const Path to_device = at_once ? Path::staged : Path::nic_loopback;
    const bool all_host = from == MemoryType::host && to == MemoryType::host;
    EXPECT_EQ(receive.path(), all_host                 ? Path::host
                              : to == MemoryType::host ? Path::nic_loopback
                                                       : to_device)
        << size;
  }
}

INSTANTIATE_TEST_SUITE_P(Memories, Messages,
                         ::testing::Combine(::testing::Values(MemoryType::host, MemoryType::gaudi,
                                                              MemoryType::cuda, MemoryType::rocm),
                                            ::testing::Values(MemoryType::host, MemoryType::gaudi,
                                                              MemoryType::cuda, MemoryType::rocm)),
                         [](const auto& pair) {
                           return std::string(to_string(std::get<0>(pair.param))) + "_" +
                                  std::string(to_string(std::get<1>(pair.param)));
                         });

TEST(Rendezvous, IsWrittenWhereTheSenderIsNotReadable) {
  Ends ends;
  // The access to the receiving memory: closed to peers; open for writing; open only for reading.
  for (const Access receiving : {Access::local_write, Access::local_write | Access::remote_write,
                                 Access::local_write | Access::remote_read}) {
    for (const MemoryType type : {MemoryType::host, MemoryType::gaudi}) {
      Memory source(ends.context, type, kMessageBytes, Access::local_write);
      Memory target(ends.context, type, kMessageBytes, receiving);
      source.fill(1);
      target.fill(2);
      Transfer send = value(ends.a->send(source.all(), 7));
      Transfer receive = value(ends.b->receive(target.all(), TagMatch{7}));
      finish(ends, receive);
      finish(ends, send);
      EXPECT_EQ(send.explain().protocol, Protocol::rendezvous_write);
      EXPECT_EQ(receive.explain().protocol, Protocol::rendezvous_write);
      EXPECT_TRUE(same_bytes(target.contents(), pattern(kMessageBytes, 1)));
    }
  }
}

TEST(Rendezvous, IsTheWayToDeviceMemoryWhereZeroCopyIsRequired) {
  EndpointOptions options;
  options.paths.require = Path::zero_copy;
  Ends ends(options);
  Memory source(ends.context, MemoryType::host, 4096);
  Memory target(ends.context, MemoryType::gaudi, 4096);
  source.fill(1);
  Transfer receive = value(ends.b->receive(target.all()));
  Transfer send = value(ends.a->send(source.slice(0, 16)));
  finish(ends, receive);
  EXPECT_EQ(receive.path(), Path::nic_loopback);
  EXPECT_EQ(receive.explain().protocol, Protocol::rendezvous_read);
}

TEST(Matching, IsByTagAndMaskInOrder) {
  Ends ends;
  Memory source(ends.context, MemoryType::host, 4096);
  Memory target(ends.context, MemoryType::host, 4096);
  std::vector<std::byte> bytes(4096);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  source.set(bytes);
  // The receive of any tag from 0x10 to 0x1f is posted before the messages (tags 0x10 to 0x15), the
  // other receives after them.
  Transfer any = value(ends.b->receive(target.slice(0, 1), TagMatch{0x10, 0xf0}));
  std::vector<Transfer> sends;
  for (std::uint64_t i = 0; i < 6; ++i)
    sends.push_back(value(ends.a->send(source.slice(i, 1), 0x10 + i)));
  sends.push_back(value(ends.a->send(source.slice(100, 1))));
  for (Transfer& send : sends) finish(ends, send);
  finish(ends, any);
  EXPECT_EQ(any.value(), 0x10U);
  // A receive for `match` (tag and mask) gets the message with `tag`.
  const auto take = [&](const TagMatch& match, std::uint64_t tag) {
    Transfer receive = value(ends.b->receive(target.slice(1, 1), match));
    finish(ends, receive);
    EXPECT_EQ(receive.value(), tag);
    EXPECT_EQ(target.contents()[1], static_cast<std::byte>(tag - 0x10));
  };
  take({0x13}, 0x13);
  take({0, 0}, 0x11);
  take({0x14, 0x4}, 0x14);
  take({0x10, 0xf0}, 0x12);
  take({0, 0}, 0x15);
  Transfer plain = value(ends.b->receive(target.slice(2, 1)));
  finish(ends, plain);
  EXPECT_EQ(target.contents()[2], std::byte{100});
}

TEST(Truncation, FailsBothEndsAndNothingElse) {
  Ends ends;
  for (const MemoryType type : {MemoryType::host, MemoryType::gaudi}) {
    Memory source(ends.context, MemoryType::host, kMessageBytes);
    Memory target(ends.context, type, kMessageBytes);
    target.fill(5);
    for (const std::uint64_t size : {64UL, 4000UL, 100000UL}) {
      for (const bool first : {true, false}) {
        std::optional<Transfer> receive;
        if (first) receive = value(ends.b->receive(target.slice(0, size - 1), TagMatch{1}));
        Transfer send =
            value(ends.a->send(source.slice(0, size), 1, {.level = CompletionLevel::arrived}));
        for (int i = 0; i < 1000; ++i) ends.b_worker.progress();
        if (!first) receive = value(ends.b->receive(target.slice(0, size - 1), TagMatch{1}));
        expect_error(ends, *receive, Errc::invalid_argument, Hint::message_truncated);
        expect_error(ends, send, Errc::invalid_argument, Hint::message_truncated);
        EXPECT_EQ(receive->bytes(), size);
        EXPECT_TRUE(send.settled());
      }
    }
    EXPECT_TRUE(same_bytes(target.contents(), pattern(kMessageBytes, 5)));
    Transfer receive = value(ends.b->receive(target.all()));
    Transfer send = value(ends.a->send(source.all()));
    finish(ends, send);
    finish(ends, receive);
  }
  EXPECT_EQ(ends.a->phase(), EndpointPhase::ready);
  EXPECT_EQ(ends.b->phase(), EndpointPhase::ready);
}

TEST(Level, ArrivedIsNotBeforeTheReceive) {
  Ends ends;
  Memory memory(ends.context, MemoryType::host, 4096);
  Transfer sent = value(ends.a->send(memory.slice(0, 8)));
  Transfer arrived = value(ends.a->send(memory.slice(0, 8), {.level = CompletionLevel::arrived}));
  finish(ends, sent);
  for (int i = 0; i < 10000; ++i) {
    ends.a_worker.progress();
    ends.b_worker.progress();
  }
  EXPECT_FALSE(arrived.done());
  std::vector<Transfer> receives;
  for (int i = 0; i < 2; ++i) receives.push_back(value(ends.b->receive(memory.slice(64, 8))));
  finish(ends, arrived);
  Transfer visible = value(ends.a->send(memory.slice(0, 8), {.level = CompletionLevel::visible}));
  for (int i = 0; i < 10000; ++i) {
    ends.a_worker.progress();
    ends.b_worker.progress();
  }
  EXPECT_FALSE(visible.done());
  receives.push_back(value(ends.b->receive(memory.slice(64, 8))));
  finish(ends, visible);
}

/// The bytes of a rendezvous message move when its receive is posted.
TEST(Flush, WaitsForNoReceive) {
  Ends ends;
  Memory source(ends.context, MemoryType::host, kMessageBytes);
  Memory target(ends.context, MemoryType::host, kMessageBytes);
  source.fill(1);
  target.fill(2);
  Transfer by_rendezvous = value(ends.a->send(source.slice(0, 100000)));
  Transfer at_once = value(ends.a->send(source.slice(0, 100), 7));
  Transfer flush = value(ends.a->flush());
  finish(ends, flush);
  EXPECT_FALSE(by_rendezvous.done());
  Transfer first = value(ends.b->receive(target.slice(0, 100), TagMatch{7}));
  ends.b_worker.progress();  // one call is enough, because the message has already arrived
  EXPECT_TRUE(first.done());
  Transfer second = value(ends.b->receive(target.all()));
  finish(ends, second);
  finish(ends, by_rendezvous);
  finish(ends, at_once);
}

TEST(Dropped, HandlesLoseNothingButTheAnswer) {
  Ends ends({.send_depth = 4, .receive_depth = 4});
  constexpr std::uint64_t kEach = 7000;  // long and short messages alternate, all of them eager
  constexpr std::uint64_t kCount = 16;
  Memory source(ends.context, MemoryType::host, kMessageBytes);
  Memory target(ends.context, MemoryType::host, kMessageBytes);
  source.fill(1);
  target.fill(2);
  const auto length = [](std::uint64_t i) { return i % 2 == 0 ? kEach : kEach - 6900; };
  const auto start = [&](Result<Transfer> transfer) { value(std::move(transfer)).reset(); };
  for (std::uint64_t i = 0; i < kCount; ++i)
    start(ends.b->receive(target.slice(i * kEach, length(i)), TagMatch{i}));
  for (std::uint64_t i = 0; i < kCount; ++i)  // more than the queue holds
    start(ends.a->send(source.slice(i * kEach, length(i)), i));
  start(ends.a->send(source.slice(kCount * kEach, 8), 99));
  Transfer last = value(ends.b->receive(target.slice(kCount * kEach, 8), TagMatch{99}));
  finish(ends, last);
  auto expected = pattern(kMessageBytes, 2);
  const auto sent = pattern(kMessageBytes, 1);
  for (std::uint64_t i = 0; i <= kCount; ++i) {
    std::copy_n(sent.begin() + static_cast<std::ptrdiff_t>(i * kEach), i == kCount ? 8 : length(i),
                expected.begin() + static_cast<std::ptrdiff_t>(i * kEach));
  }
  EXPECT_TRUE(same_bytes(target.contents(), expected));
}

TEST(Cancel, CancellingAnUnmatchedReceiveIsLocal) {
  Ends ends;
  Memory source(ends.context, MemoryType::host, 4096);
  Memory target(ends.context, MemoryType::host, 4096);
  source.fill(1);
  target.fill(2);
  Transfer one = value(ends.b->receive(target.slice(0, 64)));
  Transfer two = value(ends.b->receive(target.slice(64, 64)));
  Transfer three = value(ends.b->receive(target.slice(0, 64), TagMatch{1}));
  Transfer four = value(ends.b->receive_immediate());
  const auto late = one.wait(20ms);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::timed_out);
  good(three.cancel());
  good(four.cancel());
  EXPECT_EQ(three.poll().error().code, Errc::cancelled);
  Transfer send = value(ends.a->send(source.slice(0, 64)));
  finish(ends, send);
  finish(ends, two);
  EXPECT_TRUE(same_bytes(part_of(target.contents(), 0, 64), part_of(pattern(4096, 2), 0, 64)));
  EXPECT_EQ(ends.b->phase(), EndpointPhase::ready);
}

TEST(Flood, UnexpectedMessagesWaitAtTheSender) {
  EndpointOptions options;
  options.receive_depth = 8;
  options.unexpected_bytes = 4096;
  Ends ends(options);
  constexpr std::uint64_t kCount = 200;
  Memory source(ends.context, MemoryType::host, kMessageBytes);
  Memory target(ends.context, MemoryType::host, kMessageBytes);
  Memory into(ends.context, MemoryType::host, 20000);
  source.fill(1);
  const auto sent = pattern(kMessageBytes, 1);
  std::vector<Transfer> sends;
  const auto size_of = [](std::uint64_t i) { return i % 7 == 0 ? 20000 : i * 37 % 2000; };
  for (std::uint64_t i = 0; i < kCount; ++i)
    sends.push_back(value(ends.a->send(source.slice(i, size_of(i)), i)));
  for (int i = 0; i < 20000; ++i) {
    ends.a_worker.progress();
    ends.b_worker.progress();
  }
  EXPECT_FALSE(sends.back().done());
  // In the other direction everything still arrives, even messages that need answers.
  Transfer back = value(ends.a->receive(target.slice(0, 50000)));
  Transfer send_back = value(ends.b->send(source.slice(0, 50000)));
  finish(ends, back);
  finish(ends, send_back);
  for (std::uint64_t i = 0; i < kCount; ++i) {
    Transfer receive = value(ends.b->receive(into.all(), TagMatch{i}));
    finish(ends, receive);
    ASSERT_EQ(receive.bytes(), size_of(i));
    ASSERT_EQ(receive.value(), i);
    ASSERT_TRUE(part_of(into.contents(), 0, size_of(i)) == part_of(sent, i, size_of(i)));
  }
  for (Transfer& send : sends) finish(ends, send);
}

TEST(Flood, FromBothSidesEnds) {
  EndpointOptions options;
  options.receive_depth = 4;
  options.send_depth = 4;
  Ends ends(options);
  Memory a(ends.context, MemoryType::host, kMessageBytes);
  Memory b(ends.context, MemoryType::host, kMessageBytes);
  std::vector<Transfer> transfers;
  for (std::uint64_t i = 0; i < 300; ++i) {
    const std::uint64_t size = i % 3 == 0 ? 30000 : 100;
    transfers.push_back(value(ends.a->send(a.slice(0, size), i)));
    transfers.push_back(value(ends.b->send(b.slice(0, size), i)));
  }
  for (std::uint64_t i = 0; i < 300; ++i) {
    transfers.push_back(value(ends.a->receive(a.slice(50000, 30000), TagMatch{0, 0})));
    transfers.push_back(value(ends.b->receive(b.slice(50000, 30000), TagMatch{0, 0})));
  }
  for (Transfer& transfer : transfers) finish(ends, transfer);
}

/// Compares with a model: lists of each end's messages, tags and receives.
TEST(Model, HoldsForRandomTraffic) {
  constexpr std::uint64_t kSlot = 12000;
  for (unsigned seed = 1; seed <= 6; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](std::uint64_t limit) { return random() % limit; };
    EndpointOptions options;
    options.receive_depth = static_cast<std::uint32_t>(4 + below(20));
    options.send_depth = static_cast<std::uint32_t>(2 + below(20));
    options.eager_bytes = static_cast<std::uint32_t>(below(3) * 2000);
    options.unexpected_bytes = static_cast<std::uint32_t>(below(3) * 3000);
    Ends ends(options);
    const bool device = seed % 2 == 0;
    Memory source(ends.context, MemoryType::host, kMessageBytes,
                  seed % 3 == 0 ? Access::local_write : kAll);
    Memory target(ends.context, device ? MemoryType::gaudi : MemoryType::host, 101 * kSlot);
    source.fill(seed);
    const auto sent = pattern(kMessageBytes, seed);

    struct Message {
      std::uint64_t tag, offset, size;
    };

    struct Receive {
      TagMatch match;
      std::uint64_t slot;
      std::optional<Message> got;
      Transfer transfer;
    };

    std::vector<Transfer> sends;
    std::vector<Message> unmatched;  // sent messages
    std::vector<Receive> receives;
    const auto fits = [](const Receive& receive, const Message& message) {
      return ((receive.match.tag ^ message.tag) & receive.match.mask) == 0;
    };
    const auto start_send = [&] {
      const std::uint64_t size = below(4) == 0 ? below(kSlot) : below(3000);
      const Message message{below(4), below(kMessageBytes - kSlot), size};
      sends.push_back(value(ends.a->send(source.slice(message.offset, size), message.tag)));
      for (Receive& receive : receives) {
        if (receive.got || !fits(receive, message)) continue;
        receive.got = message;
        return;
      }
      unmatched.push_back(message);
    };
    const auto start_receive = [&](const TagMatch& match) {
      const std::uint64_t slot = receives.size();
      Receive receive{match, slot, {}, {}};
      for (auto message = unmatched.begin(); message != unmatched.end(); ++message) {
        if (!fits(receive, *message)) continue;
        receive.got = *message;
        unmatched.erase(message);
        break;
      }
      // The model matches at once. A message that arrives later finds the same receive, since
      // messages arrive in their order.
      receive.transfer = value(ends.b->receive(target.slice(slot * kSlot, kSlot), match));
      receives.push_back(std::move(receive));
    };
    for (int i = 0; i < 100; ++i) {
      if (below(2) == 0) {
        start_send();
      } else {
        start_receive({below(4), below(3) == 0 ? 1U : ~std::uint64_t{0}});
      }
      for (std::uint64_t n = below(30); n != 0; --n) {
        ends.a_worker.progress();
        ends.b_worker.progress();
      }
    }
    while (!unmatched.empty()) start_receive({0, 0});
    for (Transfer& send : sends) finish(ends, send);
    for (Receive& receive : receives) {
      if (!receive.got) {
        EXPECT_FALSE(receive.transfer.done());
        continue;
      }
      finish(ends, receive.transfer);
    }
    const auto arrived = target.contents();
    for (const Receive& receive : receives) {
      if (!receive.got) continue;
      EXPECT_EQ(receive.transfer.value(), receive.got->tag) << seed;
      EXPECT_EQ(receive.transfer.bytes(), receive.got->size) << seed;
      EXPECT_TRUE(part_of(arrived, receive.slot * kSlot, receive.got->size) ==
                  part_of(sent, receive.got->offset, receive.got->size))
          << seed;
    }
  }
}

TEST(Ending, FailsEveryReceiveAndSend) {
  Ends ends;
  Memory memory(ends.context, MemoryType::host, kMessageBytes);
  std::vector<Transfer> transfers;
  transfers.push_back(value(ends.a->receive(memory.slice(0, 64))));
  transfers.push_back(value(ends.a->receive(memory.slice(0, 64), TagMatch{1})));
  transfers.push_back(value(ends.a->receive_immediate()));
  for (int i = 0; i < 100; ++i)
    transfers.push_back(value(ends.a->send(memory.slice(0, 100000), 5)));
  Transfer there = value(ends.b->receive(memory.slice(0, 64)));
  Transfer send = value(ends.a->send(memory.slice(0, 100000)));
  for (int i = 0; i < 1000; ++i) ends.a_worker.progress();
  std::thread other([&] {
    const Deadline deadline = Deadline::after(5s);
    while (!there.done() && !deadline.passed()) ends.b_worker.progress();
  });
  good(send.cancel());
  other.join();
  for (Transfer& transfer : transfers) {
    ends.drive([&] { return transfer.done(); });
    EXPECT_FALSE(transfer.poll());
    EXPECT_TRUE(transfer.settled());
  }
  EXPECT_FALSE(there.poll());
  EXPECT_FALSE(ends.a->send(memory.slice(0, 1)));
  EXPECT_FALSE(ends.a->receive(memory.slice(0, 1)));
}

TEST(Goodbye, KeepsArrivedMessages) {
  Ends ends;
  Memory source(ends.context, MemoryType::host, 4096);
  Memory target(ends.context, MemoryType::host, 4096);
  source.fill(9);
  Transfer waiting = value(ends.b->receive(target.slice(0, 64), TagMatch{1}));
  Transfer send = value(ends.a->send(source.slice(0, 64)));
  finish(ends, send);
  send.reset();
  ends.a.reset();
  ends.drive([&] { return ends.b->phase() == EndpointPhase::closed; });
  ASSERT_TRUE(waiting.done());
  EXPECT_EQ(waiting.poll().error().code, Errc::peer_failed);
  Transfer receive = value(ends.b->receive(target.slice(64, 64)));
  ends.drive([&] { return receive.done(); });
  EXPECT_TRUE(same_bytes(part_of(target.contents(), 64, 64), part_of(pattern(4096, 9), 0, 64)));
  EXPECT_FALSE(ends.b->receive(target.slice(64, 64)));
}

TEST(Refused, ImpossibleCallsAreRefusedAtOnce) {
  Ends ends;
  Memory memory(ends.context, MemoryType::host, 4096, Access::none);
  EXPECT_EQ(ends.a->receive(memory.all()).error().code, Errc::permission_denied);
  EXPECT_EQ(ends.a->send(memory.slice(1, 4096)).error().code, Errc::invalid_argument);
  EXPECT_EQ(ends.a->send(Slice{nullptr, 0, 1}).error().code, Errc::invalid_argument);
}

}  // namespace
}  // namespace hbmwire::test

// SPDX-License-Identifier: MIT
#include "message/matching.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "endpoint/transfer_state.hpp"
#include "endpoint/worker_nic.hpp"
#include "message/receive_pool.hpp"
#include "registration/register.hpp"

namespace hbmwire::detail {
namespace {

using wire::MessageHeader;

constexpr std::uint64_t kWholeTag = ~std::uint64_t{0};

/// Matching with its own buffers and memory, without an endpoint. The last argument of keep() says
/// whether the message may stay in its buffer; else it is copied.
class MatchingTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kPlaces = 8;
  static constexpr std::uint32_t kUnits = 4;

  MatchingTest() {
    EXPECT_TRUE(pool_.begin());
    matching_.set_pool(pool_);
  }

  /// The placeholder for a NIC of endpoints over TCP.
  static WorkerNic no_nic(const Context& context) {
    const Allocation memory = context.allocate(MemoryType::host, 64).value();
    auto kept = registration::without_nic(memory, Error{}, Access::local_write).value();
    return WorkerNic{.nic = handle_of<Nic>(std::make_shared<NicState>()),
                     .channel = {},
                     .results = handle_of<Region>(std::move(kept))};
  }

  static TransferState receive_of(std::uint64_t tag, std::uint64_t mask = kWholeTag) {
    TransferState receive;
    receive.tagged = true;
    receive.tag = tag;
    receive.mask = mask;
    return receive;
  }

  static MessageHeader header_of(std::uint64_t tag, std::uint64_t length) {
    MessageHeader header;
    header.kind = MessageHeader::Kind::tagged;
    header.tag = tag;
    header.length = length;
    return header;
  }

  /// A message of `bytes` in a separate buffer.
  ReceiveBuffer& buffer_with(std::string_view bytes) {
    auto& memory = memory_.emplace_back(wire::kMessageHeaderBytes + bytes.size());
    std::memcpy(memory.data() + wire::kMessageHeaderBytes, bytes.data(), bytes.size());
    return buffers_.emplace_back(ReceiveBuffer{.bytes = memory.data()});
  }

  static std::string bytes_of(const UnexpectedMessage& message) {
    std::string bytes(message.header.length, '\0');
    std::memcpy(bytes.data(), message.bytes, bytes.size());
    return bytes;
  }

  Context context_ = Context::create().value();
  WorkerNic nic_ = no_nic(context_);
  UnexpectedPool pool_{context_, nic_, 1U << 20U, 8192};
  std::deque<std::vector<std::byte>> memory_;
  std::deque<ReceiveBuffer> buffers_;
  Matching matching_{kPlaces, kUnits* UnexpectedUnits::kUnitBytes};
};

TEST_F(MatchingTest, GivesAMessageToTheFirstReceiveThatMatches) {
  TransferState other = receive_of(7);
  TransferState first = receive_of(5);
  TransferState second = receive_of(5);
  for (TransferState* const receive : {&other, &first, &second}) matching_.add_receive(*receive);
  EXPECT_EQ(matching_.take_receive(header_of(5, 1)), &first);
  EXPECT_EQ(matching_.take_receive(header_of(5, 1)), &second);
  EXPECT_EQ(matching_.take_receive(header_of(5, 1)), nullptr);
  EXPECT_EQ(matching_.take_receive(header_of(7, 1)), &other);
}

TEST_F(MatchingTest, ComparesTheBitsOfTheMaskAlone) {
  TransferState upper = receive_of(0xab00, 0xff00);
  TransferState any = receive_of(0, 0);
  matching_.add_receive(upper);
  matching_.add_receive(any);
  EXPECT_EQ(matching_.take_receive(header_of(0xac12, 1)), &any);
  EXPECT_EQ(matching_.take_receive(header_of(0xac12, 1)), nullptr);
  EXPECT_EQ(matching_.take_receive(header_of(0xab12, 1)), &upper);
}

TEST_F(MatchingTest, KeepsPlainAndTaggedMessagesApart) {
  TransferState plain;
  TransferState tagged = receive_of(0, 0);
  MessageHeader header;
  header.kind = MessageHeader::Kind::plain;
  matching_.add_receive(tagged);
  EXPECT_EQ(matching_.take_receive(header), nullptr);
  matching_.add_receive(plain);
  EXPECT_EQ(matching_.take_receive(header), &plain);
  ReceiveBuffer& buffer = buffer_with("");
  matching_.keep(header, buffer, true);
  EXPECT_TRUE(matching_.has_message(false));
  EXPECT_FALSE(matching_.has_message(true));
  EXPECT_EQ(matching_.take_message(tagged), nullptr);
  EXPECT_NE(matching_.take_message(plain), nullptr);
}

TEST_F(MatchingTest, GivesAReceiveTheFirstMessageThatMatches) {
  matching_.keep(header_of(1, 3), buffer_with("one"), true);
  matching_.keep(header_of(2, 3), buffer_with("two"), true);
  matching_.keep(header_of(1, 5), buffer_with("again"), true);
  UnexpectedMessage* const two = matching_.take_message(receive_of(2));
  UnexpectedMessage* const one = matching_.take_message(receive_of(0, 0));
  UnexpectedMessage* const again = matching_.take_message(receive_of(1));
  ASSERT_TRUE(one != nullptr && two != nullptr && again != nullptr);
  EXPECT_EQ(bytes_of(*one), "one");
  EXPECT_EQ(bytes_of(*two), "two");
  EXPECT_EQ(bytes_of(*again), "again");
  EXPECT_FALSE(matching_.has_message(true));
  EXPECT_EQ(matching_.release(*one), &buffers_[0]);
  EXPECT_EQ(matching_.release(*two), &buffers_[1]);
  EXPECT_EQ(matching_.release(*again), &buffers_[2]);
}

TEST_F(MatchingTest, CopiesMessagesUntilItsMemoryIsFull) {
  const std::string text(3 * UnexpectedUnits::kUnitBytes, 'x');
  const UnexpectedMessage& copied =
      *matching_.keep(header_of(1, text.size()), buffer_with(text), false);
  EXPECT_EQ(copied.buffer, nullptr);
  EXPECT_EQ(copied.units, 3U);
  // One unit is left in the pool. A message that needs two units stays in its buffer, and a message
  // that needs one unit is copied.
  const std::string longer(UnexpectedUnits::kUnitBytes + 1, 'y');
  ReceiveBuffer& full = buffer_with(longer);
  const UnexpectedMessage& stays = *matching_.keep(header_of(2, longer.size()), full, false);
  EXPECT_EQ(stays.buffer, &full);
  EXPECT_EQ(stays.units, 0U);
  EXPECT_EQ(matching_.keep(header_of(3, 4), buffer_with("last"), false)->units, 1U);
  // As if a later message had come into the buffer of the first one, which was copied out of it.
  std::memset(memory_.front().data(), 0, memory_.front().size());
  UnexpectedMessage* const first = matching_.take_message(receive_of(1));
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(bytes_of(*first), text);
  EXPECT_EQ(matching_.release(*first), nullptr);
  EXPECT_EQ(matching_.keep(header_of(4, longer.size()), full, false)->units, 2U);
}

TEST_F(MatchingTest, KeepsAMessageWithoutBytesInItsBuffer) {
  MessageHeader large = header_of(1, 1U << 20U);
  large.kind = MessageHeader::Kind::tagged_large;
  EXPECT_EQ(matching_.keep(large, buffer_with(""), false)->buffer, &buffers_[0]);
  EXPECT_EQ(matching_.keep(header_of(2, 0), buffer_with(""), false)->buffer, &buffers_[1]);
  UnexpectedMessage* const first = matching_.take_message(receive_of(1));
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->header, large);
  EXPECT_EQ(matching_.release(*first), &buffers_[0]);
}

TEST_F(MatchingTest, NeverRunsOutOfPlacesForMessagesWithACredit) {
  for (int round = 0; round < 3; ++round) {
    std::vector<UnexpectedMessage*> taken;
    for (std::uint32_t i = 0; i < kPlaces; ++i)
      matching_.keep(header_of(i, 2), buffer_with("in"), true);
    for (std::uint32_t i = 0; i < kUnits; ++i)
      EXPECT_EQ(matching_.keep(header_of(100 + i, 2), buffer_with("by"), false)->units, 1U);
    for (std::uint32_t i = 0; i < kPlaces + kUnits; ++i)
      taken.push_back(matching_.take_message(receive_of(0, 0)));
    for (UnexpectedMessage* const message : taken) {
      ASSERT_NE(message, nullptr);
      matching_.release(*message);
    }
  }
}

TEST_F(MatchingTest, HoldsAMessageThatAReceiveHasTaken) {
  ReceiveBuffer& buffer = buffer_with("bytes");
  UnexpectedMessage& held = Matching::hold(header_of(1, 5), buffer);
  EXPECT_FALSE(matching_.has_message(true));
  EXPECT_EQ(bytes_of(held), "bytes");
  EXPECT_EQ(matching_.release(held), &buffer);
}

TEST_F(MatchingTest, CancelsAReceiveThatNothingHasMatched) {
  TransferState first = receive_of(1);
  TransferState second = receive_of(1);
  TransferState third = receive_of(1);
  for (TransferState* const receive : {&first, &second, &third}) matching_.add_receive(*receive);
  EXPECT_TRUE(matching_.cancel(second));
  EXPECT_FALSE(matching_.cancel(second));
  EXPECT_EQ(matching_.take_receive(header_of(1, 1)), &first);
  EXPECT_FALSE(matching_.cancel(first));
  EXPECT_TRUE(matching_.cancel(third));
  matching_.add_receive(second);
  EXPECT_EQ(matching_.take_receive(header_of(1, 1)), &second);
  TransferState immediate;
  matching_.add_immediate_receive(immediate);
  EXPECT_TRUE(matching_.cancel(immediate));
  EXPECT_EQ(matching_.take_immediate_receive(), nullptr);
}

TEST_F(MatchingTest, HandsOutAllReceivesWhenItEnds) {
  TransferState plain;
  TransferState tagged = receive_of(1);
  TransferState immediate;
  matching_.add_immediate_receive(immediate);
  matching_.add_receive(tagged);
  matching_.add_receive(plain);
  EXPECT_EQ(matching_.take_any_receive(), &plain);
  EXPECT_EQ(matching_.take_any_receive(), &tagged);
  EXPECT_EQ(matching_.take_any_receive(), &immediate);
  EXPECT_EQ(matching_.take_any_receive(), nullptr);
}

TEST_F(MatchingTest, GivesImmediatesInTheirOrder) {
  EXPECT_FALSE(matching_.has_immediate());
  EXPECT_FALSE(matching_.take_immediate());
  for (std::uint32_t i = 0; i < kPlaces; ++i) matching_.keep_immediate({i, 10 * i});
  EXPECT_TRUE(matching_.has_immediate());
  for (std::uint32_t i = 0; i < kPlaces; ++i) {
    const auto immediate = matching_.take_immediate();
    ASSERT_TRUE(immediate);
    EXPECT_EQ(immediate->value, i);
    EXPECT_EQ(immediate->bytes, 10 * i);
  }
  EXPECT_FALSE(matching_.take_immediate());
  TransferState first;
  TransferState second;
  matching_.add_immediate_receive(first);
  matching_.add_immediate_receive(second);
  EXPECT_EQ(matching_.take_immediate_receive(), &first);
  EXPECT_EQ(matching_.take_immediate_receive(), &second);
}

TEST_F(MatchingTest, HandsOutAllMessagesWhenItEnds) {
  matching_.keep(header_of(1, 3), buffer_with("one"), true);
  matching_.keep(header_of(2, 3), buffer_with("two"), false);
  UnexpectedMessage* const one = matching_.take_any_message();
  UnexpectedMessage* const two = matching_.take_any_message();
  ASSERT_TRUE(one != nullptr && two != nullptr);
  EXPECT_EQ(matching_.release(*one), &buffers_[0]);
  EXPECT_EQ(matching_.release(*two), nullptr);
  EXPECT_EQ(matching_.take_any_message(), nullptr);
}

TEST_F(MatchingTest, SharesThePoolAndGivesItBack) {
  constexpr std::uint32_t kBlock = 1024;  // units with which the pool begins
  Matching other(kPlaces, 2 * kBlock * UnexpectedUnits::kUnitBytes);
  other.set_pool(pool_);
  std::uint32_t taken = 0;
  while (other.keep(header_of(1, 4), buffer_with("some"), false)->buffer == nullptr) ++taken;
  EXPECT_EQ(taken, kBlock);
  EXPECT_NE(matching_.keep(header_of(1, 4), buffer_with("more"), false)->buffer, nullptr);
  pool_.look_after(std::chrono::steady_clock::now());  // makes the pool larger
  EXPECT_EQ(matching_.keep(header_of(1, 4), buffer_with("more"), false)->buffer, nullptr);
  while (UnexpectedMessage* const message = other.take_any_message()) other.release(*message);
  while (UnexpectedMessage* const message = matching_.take_any_message())
    matching_.release(*message);
  EXPECT_EQ(other.keep(header_of(1, 4), buffer_with("some"), false)->buffer, nullptr);
}

TEST(UnexpectedUnits, AreGivenToOneMessageAtATime) {
  constexpr std::uint32_t kUnits = 40;
  UnexpectedUnits pool(kUnits);
  std::mt19937 random(1);
  std::map<std::uint32_t, std::uint32_t> taken;
  std::uint32_t given_back = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto units = static_cast<std::uint32_t>(1 + random() % 9);
    const std::uint32_t at = random() % 2 == 0 ? pool.take(units) : UnexpectedUnits::kNone;
    if (at != UnexpectedUnits::kNone) {
      const auto next = taken.lower_bound(at);
      ASSERT_LE(at + units, kUnits);
      ASSERT_TRUE(next == taken.end() || at + units <= next->first);
      if (next != taken.begin()) {
        const auto before = std::prev(next);
        ASSERT_LE(before->first + before->second, at);
      }
      taken.emplace(at, units);
    } else if (!taken.empty()) {
      ++given_back;
      const auto some =
          std::next(taken.begin(), static_cast<std::ptrdiff_t>(random() % taken.size()));
      pool.give_back(some->first, some->second);
      taken.erase(some);
    }
  }
  for (const auto& [at, units] : taken) pool.give_back(at, units);
  EXPECT_GT(given_back, 0U);
  EXPECT_TRUE(pool.all_free());
  EXPECT_EQ(pool.take(kUnits + 1), UnexpectedUnits::kNone);
  EXPECT_EQ(pool.take(kUnits), 0U);
  EXPECT_EQ(pool.take(1), UnexpectedUnits::kNone);
}

TEST(Chain, GivesUpAnyOfItsEntries) {
  std::array<UnexpectedMessage, 3> entries;
  Chain<UnexpectedMessage> chain;
  for (UnexpectedMessage& entry : entries) chain.append(entry);
  const auto same = [&](std::size_t i) {
    return [&, i](const UnexpectedMessage& entry) { return &entry == &entries[i]; };
  };
  EXPECT_EQ(chain.take(same(2)), &entries[2]);
  chain.append(entries[2]);
  EXPECT_EQ(chain.take(same(1)), &entries[1]);
  EXPECT_EQ(chain.take(same(1)), nullptr);
  EXPECT_EQ(chain.take(same(0)), &entries[0]);
  EXPECT_EQ(&chain.take_first(), &entries[2]);
  EXPECT_TRUE(chain.empty());
}

}  // namespace
}  // namespace hbmwire::detail

// SPDX-License-Identifier: MIT
#include "wire/handshake.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "hbmwire/low_level/connection.hpp"

#include "wire/control_messages.hpp"

/// The state machine of the handshake, byte by byte, and without a network.
namespace hbmwire::wire {
namespace {

using Side = Handshake::Side;
using Step = Handshake::Step;
using Bytes = std::vector<std::byte>;

Bytes key_of(std::size_t size, unsigned seed) {
  Bytes key(size);
  for (std::size_t i = 0; i < size; ++i) key[i] = static_cast<std::byte>(seed + i * 7);
  return key;
}

EndpointOffer offer_of(std::uint32_t queue_pair) {
  EndpointOffer offer;
  offer.data.queue_pair = queue_pair;
  offer.control.queue_pair = queue_pair + 1;
  for (ConnectionAddress* const address : {&offer.data, &offer.control}) {
    address->mtu_bytes = 4096;
    address->max_message_bytes = 1U << 30U;
    address->incarnation = 77;
    address->ethernet = true;
  }
  offer.rails = {3, offer.data};  // the most that are possible
  offer.receive_depth = 16;
  offer.places = 4;
  offer.eager_bytes = 4096;
  offer.hello = key_of(24, queue_pair);
  return offer;
}

/// Both sides, and the bytes that went between them.
struct Two {
  explicit Two(const Bytes& client_key = {}, const Bytes& server_key = {})
      : Two(client_key, server_key, 0, 0) {
    client.offer(offer_of(10));
  }

  /// The client makes its offer after the server's greeting.
  Two(const Bytes& client_key, const Bytes& server_key, std::uint32_t clients_whereabouts,
      std::uint32_t servers_whereabouts)
      : client(
            Handshake::create(Side::connecting, "server", client_key, clients_whereabouts).value()),
        server(
            Handshake::create(Side::accepting, "client", server_key, servers_whereabouts).value()) {
  }

  /// Carries the bytes of `from` to `to`, `cut` bytes at a time.
  static bool carry(Handshake& from, Handshake& to, Bytes& said, std::size_t cut) {
    const Bytes bytes(from.to_send().begin(), from.to_send().end());
    from.sent(bytes.size());
    said.insert(said.end(), bytes.begin(), bytes.end());
    for (std::size_t at = 0; at < bytes.size(); at += cut)
      to.take(std::span(bytes).subspan(at, std::min(cut, bytes.size() - at)));
    return !bytes.empty();
  }

  void run(std::size_t cut = 1000) { run(cut, {}, false); }

  /// Both sides replace their offer by `late` if they are late, or if `always`.
  void run(std::size_t cut, const EndpointOffer& late, bool always = false) {
    const auto offer = [&](Handshake& of, std::uint32_t queue_pair) {
      of.offer(of.is_late() || always ? late : offer_of(queue_pair));
    };
    bool more = true;
    while (more) {
      more = carry(client, server, by_client, cut);
      if (server.step() == Step::has_offer) offer(server, 20);
      more = carry(server, client, by_server, cut) || more;
      if (client.step() == Step::has_greeting) {
        offer(client, 10);
        more = true;
      }
      if (client.step() == Step::has_offer) client.confirm();
    }
  }

  Handshake client;
  Handshake server;
  Bytes by_client;
  Bytes by_server;
};

void expect_done(const Two& two) {
  ASSERT_EQ(two.client.step(), Step::done);
  ASSERT_EQ(two.server.step(), Step::done);
  EXPECT_EQ(two.client.theirs(), offer_of(20));
  EXPECT_EQ(two.server.theirs(), offer_of(10));
}

TEST(Handshake, AHandshakeSucceedsHoweverTheBytesAreCut) {
  for (const std::size_t key : {0U, 16U, 4096U}) {
    for (std::size_t cut = 1; cut < 70; ++cut) {
      Two two(key_of(key, 1), key_of(key, 1));
      two.run(cut);
      expect_done(two);
    }
  }
}

// --- queue pairs that are made after the agreement

/// Runs a handshake of two ends with these versions. Returns whether they make queue pairs late.
bool is_late(std::uint32_t client, std::uint32_t server) {
  Two two({}, {}, client, server);
  EndpointOffer late = offer_of(1);
  late.control.queue_pair = 0;
  two.run(1000, late);
  EXPECT_EQ(two.client.step(), Step::done);
  EXPECT_EQ(two.client.is_late(), two.server.is_late());
  return two.client.is_late();
}

TEST(Handshake, QueuePairsAreLateBetweenTwoProcessesOfANodeThatWantIt) {
  NodeId node{};
  node.fill(0x35);
  NodeId other = node;
  other[3] = 0x36;
  const std::uint32_t here = whereabouts(node, 0x1234'5678'9abc'def0U);
  const std::uint32_t beside = whereabouts(node, 0x1234'5678'9abc'd000U);
  EXPECT_TRUE(is_late(here, beside));
  EXPECT_TRUE(is_late(beside, here));
  EXPECT_FALSE(is_late(here, here)) << "both ends are in one process";
  EXPECT_FALSE(is_late(here, whereabouts(other, 1))) << "the ends are on two nodes";
  EXPECT_FALSE(is_late(here, 0)) << "the peer is an earlier build, or its policy forbids it";
  EXPECT_FALSE(is_late(0, here));
  EXPECT_FALSE(is_late(0, 0));
}

TEST(Handshake, AnOfferThatDoesNotFitTheGreetingIsRefused) {
  NodeId node{};
  node.fill(0x35);
  for (const bool agreed : {true, false}) {
    Two two({}, {}, whereabouts(node, 2), agreed ? whereabouts(node, 4) : 0);
    EndpointOffer late = offer_of(1);
    late.control.queue_pair = 0;
    // Both sides make the kind of offer that they did not agree on.
    two.run(1000, agreed ? offer_of(10) : late, !agreed);
    ASSERT_EQ(two.server.step(), Step::refused);
    EXPECT_EQ(two.server.error().code, Errc::protocol);
  }
}

/// The largest possible offer: the most rails, and the longest hello.
TEST(Handshake, TheLargestOfferGoesInOneMessageOfTheControlLane) {
  const Bytes key = key_of(32, 1);
  Two two(key, key);
  EndpointOffer largest = offer_of(10);
  largest.hello = key_of(kMaxHelloBytes, 3);
  two.client.offer(largest);
  ASSERT_LE(encode(largest).size(), kMaxOfferBytes);
  std::size_t longest = 0;
  const auto carry = [&](Handshake& from, Handshake& to) {
    const Bytes bytes(from.to_send().begin(), from.to_send().end());
    from.sent(bytes.size());
    longest = std::max(longest, encode(ControlMessage(Shake{bytes})).size());
    const auto shake = decode_control(encode(ControlMessage(Shake{bytes})));
    ASSERT_TRUE(shake);
    to.take(std::get<Shake>(*shake).bytes);
  };
  carry(two.client, two.server);
  carry(two.server, two.client);
  carry(two.client, two.server);
  ASSERT_EQ(two.server.step(), Step::has_offer);
  EXPECT_EQ(two.server.theirs(), largest);
  two.server.offer(largest);
  carry(two.server, two.client);
  ASSERT_EQ(two.client.step(), Step::has_offer);
  EXPECT_EQ(two.client.theirs(), largest);
  EXPECT_GT(longest, kMaxHelloBytes);
  EXPECT_LE(longest, kMaxControlBytes);
}

TEST(Handshake, AHelloThatIsTooLongIsMalformed) {
  for (const std::size_t more : {0U, 1U}) {
    Two two;
    EndpointOffer offer = offer_of(10);
    offer.hello = Bytes(kMaxHelloBytes + more);
    two.client.offer(offer);
    two.run();
    if (more == 0) {
      EXPECT_EQ(two.server.step(), Step::done);
      continue;
    }
    ASSERT_EQ(two.server.step(), Step::refused);
    EXPECT_EQ(two.server.error().code, Errc::protocol);
    ASSERT_EQ(two.client.step(), Step::refused) << "the server tells the client why";
    EXPECT_EQ(two.client.error().code, Errc::protocol);
    // The other direction: the server's hello is too long.
    Two back;
    Two::carry(back.client, back.server, back.by_client, 1000);
    Two::carry(back.server, back.client, back.by_server, 1000);
    Two::carry(back.client, back.server, back.by_client, 1000);
    ASSERT_EQ(back.server.step(), Step::has_offer);
    back.server.offer(offer);
    Two::carry(back.server, back.client, back.by_server, 1000);
    ASSERT_EQ(back.client.step(), Step::refused);
    EXPECT_EQ(back.client.error().code, Errc::protocol);
  }
}

TEST(Handshake, AHandshakeThatIsDoneWantsNothingMore) {
  Two two;
  two.run(1);
  EXPECT_EQ(two.server.wanted(), 0U);
  EXPECT_EQ(two.client.wanted(), 0U);
}

TEST(Handshake, EveryKeyButTheSameIsRefusedOnBothSides) {
  struct Case {
    std::size_t client, server;
    unsigned seed;
  };

  for (const Case& test : {Case{32, 32, 2}, Case{33, 32, 1}, Case{0, 32, 1}, Case{32, 0, 1}}) {
    Two two(key_of(test.client, test.seed), key_of(test.server, 1));
    two.run();
    ASSERT_EQ(two.client.step(), Step::refused);
    ASSERT_EQ(two.server.step(), Step::refused);
    EXPECT_EQ(two.client.error().code, Errc::permission_denied);
    EXPECT_EQ(two.server.error().code, Errc::permission_denied);
    EXPECT_EQ(two.client.error().hint, Hint::pre_shared_key);
    EXPECT_NE(describe(two.client.error()), describe(two.server.error()));
  }
}

TEST(Handshake, AKeyHasABoundedLength) {
  for (const std::size_t size : {1U, 15U, 4097U})
    EXPECT_FALSE(Handshake::create(Side::accepting, "x", key_of(size, 1)));
}

/// A side that receives the bytes of an earlier, good handshake: all of them, or only the first
/// ones.
class Heard : public ::testing::TestWithParam<std::tuple<Side, bool>> {
 protected:
  Heard() {
    Two two(key(), key());
    two.run();
    heard = std::get<Side>(GetParam()) == Side::accepting ? two.by_client : two.by_server;
  }

  [[nodiscard]] static Bytes key() { return key_of(std::get<bool>(GetParam()) ? 32 : 0, 1); }

  /// A new side with its own key and nonce that receives `bytes`.
  [[nodiscard]] static Handshake hears(std::span<const std::byte> bytes) {
    const Side side = std::get<Side>(GetParam());
    auto handshake = Handshake::create(side, "peer", key()).value();
    if (side == Side::connecting) handshake.offer(offer_of(10));
    while (!bytes.empty() && handshake.wanted() != 0) {
      const std::size_t part = std::min(handshake.wanted(), bytes.size());
      handshake.take(bytes.first(part));
      bytes = bytes.subspan(part);
      if (handshake.step() != Step::has_offer) continue;
      if (side == Side::connecting) {
        handshake.confirm();
      } else {
        handshake.offer(offer_of(20));
      }
    }
    return handshake;
  }

  Bytes heard;
};

TEST_P(Heard, AConversationTruncatedAtAnyByteFails) {
  for (std::size_t size = 0; size < heard.size(); ++size) {
    Handshake handshake = hears(std::span(heard).first(size));
    EXPECT_NE(handshake.step(), Step::done) << size;
    handshake.end();
    ASSERT_EQ(handshake.step(), Step::refused) << size;
    EXPECT_FALSE(describe(handshake.error()).empty());
  }
}

TEST_P(Heard, AnEarlierConversationProvesNoKey) {
  const Handshake handshake = hears(heard);
  if (std::get<bool>(GetParam())) {
    ASSERT_EQ(handshake.step(), Step::refused);
    EXPECT_EQ(handshake.error().code, Errc::permission_denied);
  } else {
    EXPECT_EQ(handshake.step(), Step::done);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sides, Heard,
    ::testing::Combine(::testing::Values(Side::connecting, Side::accepting), ::testing::Bool()),
    [](const auto& test) {
      return std::string(std::get<0>(test.param) == Side::connecting ? "Connecting" : "Accepting") +
             (std::get<1>(test.param) ? "WithKey" : "WithoutKey");
    });

/// With a key every bit counts. Whichever bit changes in whichever direction, no side ends with an
/// offer that the other side has not made.
TEST(Handshake, AChangedBitIsFoundWhereThereIsAKey) {
  const Bytes key = key_of(32, 1);
  Two good(key, key);
  good.run();
  for (const bool of_client : {true, false}) {
    const std::size_t size = of_client ? good.by_client.size() : good.by_server.size();
    for (std::size_t bit = 0; bit < size * 8; ++bit) {
      Two two(key, key);
      std::size_t passed = 0;
      const auto carry = [&](Handshake& from, Handshake& to, bool changes) {
        Bytes bytes(from.to_send().begin(), from.to_send().end());
        from.sent(bytes.size());
        if (changes && bit / 8 >= passed && bit / 8 < passed + bytes.size())
          bytes[bit / 8 - passed] ^= static_cast<std::byte>(1U << bit % 8);
        if (changes) passed += bytes.size();
        to.take(bytes);
        return !bytes.empty();
      };
      bool more = true;
      while (more) {
        more = carry(two.client, two.server, of_client);
        if (two.server.step() == Step::has_offer) {
          ASSERT_EQ(two.server.theirs(), offer_of(10)) << bit;
          two.server.offer(offer_of(20));
        }
        more = carry(two.server, two.client, !of_client) || more;
        if (two.client.step() == Step::has_offer) {
          ASSERT_EQ(two.client.theirs(), offer_of(20)) << bit;
          two.client.confirm();
        }
      }
      ASSERT_FALSE(two.client.step() == Step::done && two.server.step() == Step::done) << bit;
    }
  }
}

TEST(Handshake, ASideIsNotFooledByItsOwnWords) {
  for (const std::size_t size : {0U, 32U}) {
    auto client = Handshake::create(Side::connecting, "peer", key_of(size, 1)).value();
    client.offer(offer_of(10));
    const Bytes own(client.to_send().begin(), client.to_send().end());
    client.take(own);
    EXPECT_EQ(client.step(), Step::refused);
  }
}

TEST(Handshake, ASpeakerOfAnotherProtocolHearsNothing) {
  const std::string request = "GET / HTTP/1.1\r\n\r\n";
  auto server = Handshake::create(Side::accepting, "peer", {}).value();
  server.take(std::as_bytes(std::span(request)).first(1));
  ASSERT_EQ(server.step(), Step::refused);
  EXPECT_EQ(server.error().hint, Hint::not_hbmwire);
  EXPECT_TRUE(server.to_send().empty());
}

TEST(Handshake, BothEndsNameBothVersions) {
  const std::string both = "version 99 there, " + std::to_string(kEndpointVersion) + " here";
  // An end of version 99 would put it into the greeting and into the bytes after it.
  const auto of_version_99 = [](Handshake& end) {
    Bytes said(end.to_send().begin(), end.to_send().end());
    end.sent(said.size());
    // The low byte of the version, which follows eight bytes of magic.
    said.at(9) = std::byte{99};
    return said;
  };
  Two two;
  two.server.take(of_version_99(two.client));
  ASSERT_EQ(two.server.step(), Step::refused);
  EXPECT_EQ(two.server.error().hint, Hint::other_version);
  EXPECT_EQ(number_text(two.server.error()), both);
  two.client.take(of_version_99(two.server));
  ASSERT_EQ(two.client.step(), Step::refused);
  EXPECT_EQ(two.client.error().code, Errc::protocol);
  EXPECT_EQ(number_text(two.client.error()), both);
}

TEST(Handshake, OwnReasonsAreTold) {
  for (std::uint16_t why = 1; why <= kLastRefusal; ++why) {
    Two two;
    Two::carry(two.client, two.server, two.by_client, 1000);
    Two::carry(two.server, two.client, two.by_server, 1000);
    Two::carry(two.client, two.server, two.by_client, 1000);
    ASSERT_EQ(two.server.step(), Step::has_offer);
    two.server.refuse(static_cast<Refusal>(why),
                      make_error(Errc::exhausted, Stage::open, "own", "nic"));
    two.run();
    ASSERT_EQ(two.client.step(), Step::refused);
    EXPECT_EQ(two.server.error().stage, Stage::open);
    EXPECT_EQ(two.client.error().stage, Stage::connect);
    EXPECT_NE(two.client.error().hint, Hint::none);
  }
}

TEST(Handshake, AMessageOutOfTurnOrTooLongIsRefused) {
  const auto after_greeting = [](std::vector<int> header) {
    Two two;
    Two::carry(two.client, two.server, two.by_client, 1000);
    Bytes bytes;
    for (const int byte : header) bytes.push_back(static_cast<std::byte>(byte));
    two.server.take(bytes);
    return two.server.step();
  };
  EXPECT_EQ(after_greeting({0, 0, 0, 2}), Step::refused);           // ready before an offer
  EXPECT_EQ(after_greeting({0, 0, 0, 9}), Step::refused);           // unknown frame
  EXPECT_EQ(after_greeting({255, 255, 0, 1}), Step::refused);       // an offer of 64 KiB
  EXPECT_EQ(after_greeting({0, 3, 0, 3, 0, 1, 0}), Step::refused);  // a refusal of three bytes
  EXPECT_EQ(after_greeting({0, 80, 0, 1}), Step::talking);          // an offer of 80 bytes begins
}

}  // namespace
}  // namespace hbmwire::wire

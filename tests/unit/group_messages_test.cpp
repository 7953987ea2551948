// SPDX-License-Identifier: MIT
#include "wire/group_messages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

namespace hbmwire::wire {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::initializer_list<unsigned> values) {
  Bytes bytes;
  for (const unsigned value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

Bytes joined(const Bytes& first, const Bytes& second) {
  Bytes all = first;
  all.insert(all.end(), second.begin(), second.end());
  return all;
}

GroupMember member(std::uint32_t rank) {
  return {.rank = rank,
          .host = "node" + std::to_string(rank),
          .addresses = {"10.0.0." + std::to_string(rank + 1) + ":7000", "[fe80::1]:7000"}};
}

/// A message of each kind, in the order of their numbers.
std::vector<GroupMessage> one_of_each() {
  return {
      Join{.epoch = 3, .member = member(2)},
      Joined{.group = 0x0102030405060708, .epoch = 4, .rank = 1, .members = {member(0), member(1)}},
      Missing{{1, 3, 4095}},
      Give{.call = 7, .among_present = true, .patience_ms = 250, .bytes = bytes_of({1, 2, 3})},
      Given{.call = 7, .bytes = {bytes_of({9}), std::nullopt, Bytes{}}},
      Gone{{0, 2}},
      Leave{},
      Refused{Refused::Why::too_much}};
}

void expect_refused(const Bytes& bytes, const std::string& what) {
  const auto message = decode_group(bytes);
  ASSERT_FALSE(message) << what;
  EXPECT_EQ(message.error().code, Errc::protocol) << what;
  EXPECT_EQ(message.error().stage, Stage::complete) << what;
}

TEST(GroupMessages, EachKindComesBackAsItWas) {
  for (const GroupMessage& message : one_of_each()) {
    const Bytes bytes = encode(message);
    EXPECT_EQ(bytes.front(), static_cast<std::byte>(message.index() + 1));
    const auto back = decode_group(bytes);
    ASSERT_TRUE(back) << message.index();
    EXPECT_EQ(back->index(), message.index());
    EXPECT_EQ(encode(*back), bytes) << message.index();
  }
  const auto back = decode_group(encode(one_of_each()[1]));
  const auto& all = std::get<Joined>(*back);
  EXPECT_EQ(all.group, 0x0102030405060708U);
  EXPECT_EQ(all.epoch, 4U);
  EXPECT_EQ(all.rank, 1U);
  ASSERT_EQ(all.members.size(), 2U);
  EXPECT_EQ(all.members[1].host, "node1");
  EXPECT_EQ(all.members[1].addresses, member(1).addresses);
  const auto given = std::get<Given>(*decode_group(encode(one_of_each()[4])));
  EXPECT_EQ(given, std::get<Given>(one_of_each()[4]));
}

TEST(GroupMessages, AMessageThatIsCutAnywhereIsRefused) {
  for (const GroupMessage& message : one_of_each()) {
    const Bytes bytes = encode(message);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      expect_refused(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length)),
                     std::to_string(message.index()) + " cut at " + std::to_string(length));
    }
    expect_refused(joined(bytes, bytes_of({0})), "a byte too many");
  }
}

TEST(GroupMessages, UnknownKindsAreRefused) {
  for (const unsigned kind : {0U, 9U, 255U}) {
    for (const GroupMessage& message : one_of_each()) {
      Bytes bytes = encode(message);
      bytes.front() = static_cast<std::byte>(kind);
      expect_refused(bytes, "kind " + std::to_string(kind));
    }
  }
}

TEST(GroupMessages, CountsBeyondTheLimitsAreRefused) {
  const Bytes nothing(1U << 16U, std::byte{0});
  // The kinds 3 and 6 name ranks that are missing or gone: their count in two bytes, and then their
  // numbers. The limit is 4096, which is 0x1000.
  for (const unsigned kind : {3U, 6U}) {
    EXPECT_TRUE(decode_group(joined(bytes_of({kind, 0x10, 0x00}), Bytes(4096 * 4))));
    expect_refused(joined(bytes_of({kind, 0x10, 0x01}), Bytes(4097 * 4)), "4097 ranks");
    expect_refused(joined(bytes_of({kind, 0xff, 0xff}), nothing), "65535 ranks");
  }
  // Members of a group, behind its number, epoch and rank.
  expect_refused(joined(joined(bytes_of({2}), Bytes(16)), joined(bytes_of({0x10, 0x01}), nothing)),
                 "4097 members");
  // Parts of an exchange, none of which is there, behind the number of its call.
  const Bytes begin = bytes_of({5, 0, 0, 0, 1});
  EXPECT_TRUE(decode_group(joined(begin, joined(bytes_of({0x10, 0x00}), Bytes(4096)))));
  expect_refused(joined(begin, joined(bytes_of({0x10, 0x01}), Bytes(4097))), "4097 parts");
}

TEST(GroupMessages, TextsAndPartsThatAreTooLongAreRefused) {
  GroupMember long_host = member(0);
  long_host.host = std::string(300, 'h');
  const auto cut = decode_group(encode(Join{.epoch = 0, .member = long_host}));
  ASSERT_TRUE(cut);
  EXPECT_EQ(std::get<Join>(*cut).member.host, std::string(255, 'h'));
  GroupMember many = member(0);
  many.addresses.assign(20, "127.0.0.1:1");
  EXPECT_EQ(std::get<Join>(*decode_group(encode(Join{.epoch = 0, .member = many})))
                .member.addresses.size(),
            kMostGroupAddresses);

  // The same texts and numbers from a peer that ignores the limits of encode().
  const Bytes begin = joined(bytes_of({1}), Bytes(8));  // epoch, rank
  expect_refused(joined(begin, joined(bytes_of({0x01, 0x00}), Bytes(256 + 1))), "a host's name");
  const Bytes no_host = joined(begin, Bytes(2));
  expect_refused(joined(no_host, joined(bytes_of({17}), Bytes(17 * 2))), "17 addresses");
  expect_refused(joined(no_host, joined(bytes_of({1, 0x01, 0x2d}), Bytes(301))), "an address");

  Give give{.call = 1, .among_present = false, .patience_ms = 0, .bytes = Bytes(kMostRankBytes)};
  EXPECT_TRUE(decode_group(encode(give)));
  EXPECT_LE(encode(give).size(), kMostToMeetingPoint);
  give.bytes.push_back({});
  expect_refused(encode(give), "a part of a rank");
  const Given given{.call = 1, .bytes = {give.bytes}};
  expect_refused(encode(given), "a part of a rank, to all");
}

TEST(GroupMessages, InvalidNumbersAreRefused) {
  expect_refused(bytes_of({3, 0, 1, 0, 0, 0x10, 0x00}), "rank 4096 is missing");
  expect_refused(bytes_of({6, 0, 1, 0xff, 0xff, 0xff, 0xff}), "rank 4294967295 has gone");
  expect_refused(bytes_of({4, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0}), "a flag of 2");
  expect_refused(bytes_of({5, 0, 0, 0, 1, 0, 1, 2}), "a flag of 2 before a part");
  expect_refused(bytes_of({8, 0}), "refused for no reason");
  expect_refused(bytes_of({8, 6}), "refused for an unknown reason");
  expect_refused(
      encode(Joined{.group = 1, .epoch = 1, .rank = 2, .members = {member(0), member(1)}}),
      "a rank that the group does not have");
  expect_refused(encode(Joined{.group = 1, .epoch = 1, .rank = 0, .members = {}}), "no members");
  expect_refused(
      encode(Joined{.group = 1, .epoch = 1, .rank = 0, .members = {member(1), member(0)}}),
      "members in another order");
}

TEST(GroupHellos, ComeBackAsTheyWere) {
  for (const std::optional<std::uint32_t> rank : {std::optional<std::uint32_t>{}, {0U}, {4095U}}) {
    const GroupHello hello{.size = 4096, .rank = rank};
    EXPECT_EQ(decode_group_hello(encode(hello)), hello);
  }
  const PeerHello peer{.group = 0x1122334455667788, .rank = 12, .use = 1};
  EXPECT_EQ(decode_peer_hello(encode(peer)), peer);
}

/// Expects that `decode` takes these bytes, and refuses them when they are cut anywhere, have a
/// byte too many, or begin with another word.
template <class Decode>
void expect_whole(const Bytes& bytes, const Decode& decode) {
  EXPECT_TRUE(decode(bytes));
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_FALSE(decode(cut)) << length;
  }
  EXPECT_FALSE(decode(joined(bytes, bytes_of({0}))));
  constexpr std::size_t kMagicAndVersion = 6;
  for (std::size_t at = 0; at < kMagicAndVersion; ++at) {
    Bytes other = bytes;
    other[at] ^= std::byte{1};
    EXPECT_FALSE(decode(other)) << at;
  }
}

TEST(GroupHellos, OtherTextsAreNoGroupHello) {
  const Bytes group = encode(GroupHello{.size = 2, .rank = 1});
  const Bytes peer = encode(PeerHello{.group = 1, .rank = 1, .use = 0});
  expect_whole(group, &decode_group_hello);
  expect_whole(peer, &decode_peer_hello);
  EXPECT_FALSE(decode_peer_hello(group));
  EXPECT_FALSE(decode_group_hello(peer));
  EXPECT_FALSE(decode_group_hello(encode(GroupHello{.size = 0, .rank = {}})));
  EXPECT_FALSE(decode_group_hello(encode(GroupHello{.size = kMostRanks + 1, .rank = {}})));
}

TEST(BroadcastMessages, ComeBackAsTheyWere) {
  const BroadcastOffer offer{.length_bytes = 1ULL << 40U,
                             .piece_bytes = 4096,
                             .root = 3,
                             .verify = false,
                             .key = bytes_of({4, 5, 6})};
  EXPECT_EQ(*decode_broadcast_offer(encode(offer)), offer);
  EXPECT_EQ(*decode_broadcast_offer(encode(BroadcastOffer{})), BroadcastOffer{});
  for (const auto state :
       {BroadcastEnd::State::done, BroadcastEnd::State::failed, BroadcastEnd::State::not_reached}) {
    BroadcastEnd end{.state = state};
    end.digest.fill(0xa5);
    EXPECT_EQ(*decode_broadcast_end(encode(end)), end);
  }
}

TEST(BroadcastMessages, OtherMessagesAreRefused) {
  const auto refused = [](const auto& decode, const Bytes& bytes) {
    const auto message = decode(bytes);
    EXPECT_FALSE(message);
    return !message && message.error().code == Errc::protocol;
  };
  BroadcastOffer offer{.length_bytes = 1, .piece_bytes = 4096, .key = bytes_of({1, 2})};
  const Bytes offered = encode(offer);
  for (std::size_t length = 0; length < offered.size(); ++length) {
    EXPECT_TRUE(
        refused(&decode_broadcast_offer,
                Bytes(offered.begin(), offered.begin() + static_cast<std::ptrdiff_t>(length))));
  }
  EXPECT_TRUE(refused(&decode_broadcast_offer, joined(offered, bytes_of({0}))));
  Bytes flag = offered;
  flag.at(20) = std::byte{2};  // "verify"
  EXPECT_TRUE(refused(&decode_broadcast_offer, flag));
  offer.key.resize(60'000);
  EXPECT_TRUE(refused(&decode_broadcast_offer, encode(offer)));

  const Bytes end = encode(BroadcastEnd{});
  for (std::size_t length = 0; length < end.size(); ++length) {
    EXPECT_TRUE(refused(&decode_broadcast_end,
                        Bytes(end.begin(), end.begin() + static_cast<std::ptrdiff_t>(length))));
  }
  EXPECT_TRUE(refused(&decode_broadcast_end, joined(end, bytes_of({0}))));
  for (const unsigned state : {0U, 4U, 255U}) {
    Bytes other = end;
    other.front() = static_cast<std::byte>(state);
    EXPECT_TRUE(refused(&decode_broadcast_end, other));
  }
}

}  // namespace
}  // namespace hbmwire::wire

// SPDX-License-Identifier: MIT
#include "wire/message_header.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace hbmwire::wire {
namespace {

using Kind = MessageHeader::Kind;

std::vector<std::byte> bytes_of(const MessageHeader& header, std::size_t follow = 0) {
  std::vector<std::byte> bytes(kMessageHeaderBytes + follow);
  encode(header, bytes.data());
  return bytes;
}

/// A valid header of each kind.
std::vector<MessageHeader> good_ones() {
  return {
      {.kind = Kind::credit, .credits = 65535},
      {.kind = Kind::plain, .length = 3},
      {.kind = Kind::plain, .flags = MessageHeader::kInlined, .id = 4},
      {.kind = Kind::tagged, .credits = 1, .tag = 77, .length = 5, .path = 1},
      {.kind = Kind::plain_large,
       .flags = MessageHeader::kReadable,
       .id = 9,
       .length = 1ULL << 40U,
       .address = 4096,
       .remote_key = 5},
      {.kind = Kind::tagged_large, .id = 9, .tag = ~0ULL, .length = 7},
      {.kind = Kind::clear, .id = 1, .tag = 2, .length = 3, .address = 4, .remote_key = 5},
      {.kind = Kind::finished, .id = 1, .outcome = MessageHeader::Outcome::refused},
      {.kind = Kind::written, .id = 1, .length = 3, .path = kLastPath},
      {.kind = Kind::finished, .id = 1, .outcome = MessageHeader::Outcome::denied},
      {.kind = Kind::put,
       .credits = 2,
       .id = 1,
       .tag = ~0ULL,
       .length = 1ULL << 40U,
       .address = 4096,
       .remote_key = 5},
      {.kind = Kind::get, .id = 1, .tag = 2, .length = 3, .address = 4, .path = kLastPath},
  };
}

std::size_t follows(const MessageHeader& header) {
  return header.carries() ? header.length : header.asks() ? kPlaceBytes : 0;
}

TEST(MessageHeader, NamesThePlaceOfTheRequestedBytes) {
  auto bytes = bytes_of({.kind = Kind::put, .id = 1, .tag = 2, .length = 3}, kPlaceBytes);
  encode_place(0x123456789abcdef0, bytes.data() + kMessageHeaderBytes);
  ASSERT_TRUE(decode_header(bytes));
  EXPECT_EQ(decode_place(bytes.data()), 0x123456789abcdef0);
  EXPECT_EQ(bytes[kMessageHeaderBytes], std::byte{0xf0}) << "little-endian";
}

TEST(MessageHeader, ComesBackAsItWent) {
  for (const MessageHeader& header : good_ones()) {
    const auto bytes = bytes_of(header, follows(header));
    const auto back = decode_header(bytes);
    ASSERT_TRUE(back) << static_cast<int>(header.kind);
    EXPECT_EQ(*back, header);
  }
}

TEST(MessageHeader, IsRefusedWithAnotherLength) {
  for (const MessageHeader& header : good_ones()) {
    auto bytes = bytes_of(header, follows(header));
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(decode_header(bytes)) << static_cast<int>(header.kind);
    bytes.resize(bytes.size() - 2);
    EXPECT_FALSE(decode_header(bytes)) << static_cast<int>(header.kind);
  }
  EXPECT_FALSE(decode_header({}));
}

TEST(MessageHeader, IsRefusedWithFieldsOfAnotherKind) {
  const auto refused = [](const MessageHeader& header) {
    return !decode_header(bytes_of(header, follows(header)));
  };
  EXPECT_TRUE(refused({.kind = static_cast<Kind>(0)}));
  EXPECT_TRUE(refused({.kind = static_cast<Kind>(11)}));
  EXPECT_TRUE(refused({.kind = Kind::credit}));
  EXPECT_TRUE(refused({.kind = Kind::credit, .credits = 1, .id = 1}));
  EXPECT_TRUE(refused({.kind = Kind::credit, .credits = 1, .length = 1}));
  EXPECT_TRUE(refused({.kind = Kind::credit, .credits = 1, .tag = 1}));
  EXPECT_TRUE(refused({.kind = Kind::credit, .credits = 1, .shared_key = 1}));
  EXPECT_TRUE(refused({.kind = Kind::plain, .flags = MessageHeader::kReadable}));
  EXPECT_TRUE(refused({.kind = Kind::plain, .flags = 4}));
  EXPECT_TRUE(refused({.kind = Kind::plain, .tag = 1}));
  EXPECT_TRUE(refused({.kind = Kind::plain, .address = 1}));
  EXPECT_TRUE(refused({.kind = Kind::tagged, .remote_key = 1}));
  EXPECT_TRUE(refused({.kind = Kind::tagged, .outcome = MessageHeader::Outcome::too_long}));
  EXPECT_TRUE(refused({.kind = Kind::tagged_large, .length = 1}));  // no id
  EXPECT_TRUE(refused(
      {.kind = Kind::tagged_large, .flags = MessageHeader::kInlined, .id = 1, .length = 1}));
  EXPECT_TRUE(refused({.kind = Kind::clear, .length = 1}));
  EXPECT_TRUE(refused({.kind = Kind::clear, .flags = 1, .id = 1, .length = 1}));
  EXPECT_TRUE(refused({.kind = Kind::clear, .id = 1, .length = 2, .address = ~0ULL}));
  EXPECT_TRUE(refused({.kind = Kind::finished}));
  EXPECT_TRUE(refused({.kind = Kind::finished, .id = 1, .path = kLastPath + 1}));
  EXPECT_TRUE(refused({.kind = Kind::finished, .id = 1, .path = kNeverTold}));
  EXPECT_TRUE(refused(
      {.kind = Kind::finished, .id = 1, .outcome = static_cast<MessageHeader::Outcome>(5)}));
  EXPECT_TRUE(refused({.kind = Kind::written, .id = 1, .length = 1, .remote_key = 1}));
  for (const Kind kind : {Kind::put, Kind::get}) {
    EXPECT_TRUE(refused({.kind = kind, .id = 1, .length = 1})) << "no token";
    EXPECT_TRUE(refused({.kind = kind, .tag = 1, .length = 1})) << "no id";
    EXPECT_TRUE(refused({.kind = kind, .flags = 1, .id = 1, .tag = 1, .length = 1}));
    EXPECT_TRUE(refused({.kind = kind, .id = 1, .tag = 1, .length = 2, .address = ~0ULL}));
    EXPECT_TRUE(refused(
        {.kind = kind, .id = 1, .tag = 1, .length = 1, .outcome = MessageHeader::Outcome::denied}));
  }
}

TEST(MessageHeader, IsRefusedWhereItGivesOrMovesNothing) {
  for (const Kind kind : {Kind::plain_large, Kind::tagged_large, Kind::clear, Kind::written}) {
    EXPECT_TRUE(decode_header(bytes_of({.kind = kind, .id = 1, .length = 1})));
    EXPECT_FALSE(decode_header(bytes_of({.kind = kind, .id = 1})));
  }
  for (const Kind kind : {Kind::put, Kind::get}) {
    EXPECT_TRUE(decode_header(bytes_of({.kind = kind, .id = 1, .tag = 1, .length = 1}, 8)));
    EXPECT_FALSE(decode_header(bytes_of({.kind = kind, .id = 1, .tag = 1}, 8)));
  }
  EXPECT_TRUE(decode_header(bytes_of({.kind = Kind::credit, .credits = 1})));
  EXPECT_FALSE(decode_header(bytes_of({.kind = Kind::credit})));
}

}  // namespace
}  // namespace hbmwire::wire

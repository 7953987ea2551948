// SPDX-License-Identifier: MIT
#include "wire/memory_key.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/memory_key.hpp"

namespace hbmwire {
namespace {

using Expiry = std::chrono::sys_time<std::chrono::nanoseconds>;

/// The smallest and the largest keys, the latter with all optional parts.
std::vector<MemoryKeyInfo> some_keys() {
  MemoryKeyInfo least;
  least.length_bytes = 1;
  least.access = Access::remote_read;
  least.incarnation = 1;
  least.token = 1;
  MemoryKeyInfo usual;
  usual.type = MemoryType::gaudi;
  usual.address = 0x1001001800000000ULL;
  usual.length_bytes = 4096;
  usual.access = Access::remote_write | Access::remote_read;
  usual.path = Path::zero_copy;
  usual.incarnation = 0x0123456789abcdefULL;
  usual.expires = Expiry(std::chrono::nanoseconds(1'800'000'000'000'000'000));
  usual.token = 0xfedcba9876543210ULL;
  usual.nics = {{.gid = {0xfe, 0x80, 1}, .remote_key = 0x01020304},
                {.gid = {0xfe, 0x80, 2}, .remote_key = 0xffffffff}};
  usual.attach = AttachAddress{.socket = "hbmwire-1", .secret = {1, 2, 3}};
  MemoryKeyInfo unreached = usual;
  unreached.path = Path::staged;
  unreached.nics.clear();
  MemoryKeyInfo most = usual;
  most.type = MemoryType::dmabuf;
  most.access = most.access | Access::remote_atomic;
  most.address = ~std::uint64_t{0} - 5;
  most.length_bytes = 5;
  most.expires = Expiry(std::chrono::nanoseconds::max());
  most.attach->socket = std::string(wire::kMaxSocketBytes, '\0');
  most.nics.clear();
  for (std::uint8_t i = 0; i < wire::kMaxKeyNics; ++i)
    most.nics.push_back({.gid = {1, i}, .remote_key = i});
  return {least, usual, unreached, most};
}

/// Adds a valid checksum, as someone who forges a key would.
std::vector<std::byte> sealed(std::vector<std::byte> bytes) {
  const std::uint32_t sum = wire::crc32c(std::span(bytes).first(bytes.size() - 4));
  for (std::size_t i = 0; i < 4; ++i)
    bytes[bytes.size() - 4 + i] = static_cast<std::byte>(sum >> (24 - 8 * i) & 0xffU);
  return bytes;
}

/// Decodes from a heap buffer of exactly the size, so that a sanitizer notices reads past the end.
Result<MemoryKeyInfo> decode(std::span<const std::byte> bytes) {
  const std::vector<std::byte> exact(bytes.begin(), bytes.end());
  return wire::decode_memory_key(exact);
}

TEST(RemoteKey, IsValidAfterItWasMovedFrom) {
  MemoryKeyInfo info = some_keys().at(1);
  info.expires = {};
  RemoteKey from = *RemoteKey::unpack(wire::encode(info));
  // NOLINTBEGIN(bugprone-use-after-move,performance-move-const-arg): this is what is tested
  RemoteKey to = std::move(from);
  EXPECT_EQ(to.info(), info);
  EXPECT_EQ(from.info(), info);
  to = std::move(from);
  EXPECT_EQ(from.info(), info);
  EXPECT_EQ(from.on(info.nics[0].gid).value(), to.on(info.nics[0].gid).value());
  const auto checked = from.check({.incarnation = info.incarnation + 1});
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().hint, Hint::memory_key_other_process);
  // NOLINTEND(bugprone-use-after-move,performance-move-const-arg)
}

TEST(MemoryKeyCodec, ChecksumIsCrc32c) {
  constexpr std::string_view kText = "123456789";
  // The check value of CRC-32/ISCSI in the catalogue of parametrised CRC algorithms.
  EXPECT_EQ(wire::crc32c(std::as_bytes(std::span(kText))), 0xe3069283U);
  EXPECT_EQ(wire::crc32c({}), 0U);
}

TEST(MemoryKeyCodec, SurvivesEncodingAndDecoding) {
  for (const MemoryKeyInfo& key : some_keys()) {
    ASSERT_TRUE(wire::is_sane(key));
    const auto bytes = wire::encode(key);
    EXPECT_LE(bytes.size(), wire::kMaxKeyBytes);
    const auto decoded = decode(bytes);
    ASSERT_TRUE(decoded) << describe(decoded.error());
    EXPECT_EQ(*decoded, key);
  }
  EXPECT_EQ(wire::encode(some_keys().back()).size(), wire::kMaxKeyBytes);
}

/// Written by hand from the table of docs/memory-keys.md; another program computed the checksum.
constexpr std::string_view kGolden =
    "68626d6b"
    "0003"  // "hbmk", version
    "01"
    "03"
    "01"
    "02"
    "0100"  // gaudi, write and read, attach, NICs, zero_copy, zero
    "1001001800000000"
    "0000000000001000"  // address, length
    "0123456789abcdef"
    "18fae27693b40000"  // incarnation, expiry
    "fedcba9876543210"  // token
    "fe800100000000000000000000000000"
    "01020304"  // a GID and its remote key
    "fe800200000000000000000000000000"
    "ffffffff"
    "0009"
    "68626d776972652d31"                // socket "hbmwire-1"
    "01020300000000000000000000000000"  // secret
    "453e9b36";                         // CRC-32C

TEST(MemoryKeyCodec, BytesOfVersion3DoNotChange) {
  std::string hex;
  for (const std::byte byte : wire::encode(some_keys()[1])) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    hex += kDigits[std::to_integer<std::size_t>(byte >> 4)];
    hex += kDigits[std::to_integer<std::size_t>(byte & std::byte{15})];
  }
  EXPECT_EQ(hex, kGolden);
}

TEST(MemoryKeyCodec, RefusesTruncatedKeysAndTrailingBytes) {
  for (const MemoryKeyInfo& key : some_keys()) {
    auto bytes = wire::encode(key);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      const std::span<const std::byte> cut(bytes.data(), length);
      EXPECT_FALSE(decode(cut)) << length;
      if (length > 10) {
        EXPECT_FALSE(decode(sealed({cut.begin(), cut.end()}))) << length << ", sealed";
      }
    }
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(decode(bytes));
    EXPECT_FALSE(decode(sealed(bytes)));
  }
}

TEST(MemoryKeyCodec, RefusesEveryFlippedBit) {
  for (const MemoryKeyInfo& key : some_keys()) {
    const auto bytes = wire::encode(key);
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      auto flipped = bytes;
      flipped[bit / 8] ^= std::byte{1} << bit % 8;
      const auto decoded = decode(flipped);
      ASSERT_FALSE(decoded) << "bit " << bit;
      EXPECT_EQ(decoded.error().code, Errc::protocol);
      EXPECT_NE(decoded.error().hint, Hint::none);
    }
  }
}

// Forged keys: whatever decodes has valid values, and encodes to the same bytes.
TEST(MemoryKeyCodec, DecodedKeysAreValidAndCanonical) {
  int decoded_ones = 0;
  for (const MemoryKeyInfo& key : some_keys()) {
    const auto bytes = wire::encode(key);
    for (std::size_t i = 0; i < bytes.size() - 4; ++i) {
      for (const unsigned mask : {0x01U, 0x02U, 0x04U, 0x80U, 0xffU}) {
        auto forged = bytes;
        forged[i] ^= static_cast<std::byte>(mask);
        forged = sealed(forged);
        const auto decoded = decode(forged);
        if (!decoded) continue;
        ++decoded_ones;
        EXPECT_TRUE(wire::is_sane(*decoded));
        EXPECT_EQ(wire::encode(*decoded), forged) << "byte " << i;
      }
    }
  }
  EXPECT_GT(decoded_ones, 100) << "the seal does not fit";
}

TEST(MemoryKeyCodec, NamesTheFault) {
  const auto hint_of = [](std::vector<std::byte> bytes) {
    const auto decoded = decode(bytes);
    EXPECT_FALSE(decoded);
    return decoded ? Hint::none : decoded.error().hint;
  };
  auto bytes = wire::encode(some_keys()[1]);
  EXPECT_EQ(hint_of({}), Hint::memory_key_bytes);
  EXPECT_EQ(hint_of(std::vector<std::byte>(100)), Hint::memory_key_bytes);
  for (const unsigned version : {1U, 2U, 4U}) {
    bytes[5] = static_cast<std::byte>(version);
    EXPECT_EQ(hint_of(bytes), Hint::other_version) << "whatever another version's checksum is";
    EXPECT_EQ(number_text(wire::decode_memory_key(bytes).error()),
              "version " + std::to_string(version) + " there, 3 here");
  }
}

/// Keys that no exporter can mean.
TEST(MemoryKeyCodec, RefusesImpossibleKeys) {
  using Change = void (*)(MemoryKeyInfo&);
  const std::vector<std::pair<const char*, Change>> changes{
      {"an unknown type", [](auto& key) { key.type = static_cast<MemoryType>(5); }},
      {"no bytes", [](auto& key) { key.length_bytes = 0; }},
      {"a range that wraps", [](auto& key) { key.address = ~std::uint64_t{0} - 4094; }},
      {"no access", [](auto& key) { key.access = Access::none; }},
      {"a path that host memory does not have", [](auto& key) { key.type = MemoryType::host; }},
      {"no process", [](auto& key) { key.incarnation = 0; }},
      {"no token", [](auto& key) { key.token = 0; }},
      {"no NIC, and a path", [](auto& key) { key.nics.clear(); }},
      {"NICs, and no path", [](auto& key) { key.path = Path::staged; }},
      {"a path of transfers alone", [](auto& key) { key.path = Path::nic_loopback; }},
      {"no GID", [](auto& key) { key.nics[0].gid = {}; }},
      {"one GID twice", [](auto& key) { key.nics[1].gid = key.nics[0].gid; }},
      {"a socket without a name", [](auto& key) { key.attach->socket.clear(); }},
  };
  for (const auto& [what, change] : changes) {
    MemoryKeyInfo key = some_keys()[1];
    change(key);
    EXPECT_FALSE(wire::is_sane(key)) << what;
    EXPECT_FALSE(decode(wire::encode(key))) << what;
  }
  // Values that encode() cannot write.
  const auto refused = [](std::size_t at, unsigned value) {
    auto bytes = wire::encode(some_keys()[1]);
    bytes.at(at) = static_cast<std::byte>(value);
    return !decode(sealed(bytes));
  };
  EXPECT_TRUE(refused(7, 11)) << "an unknown bit of access";
  EXPECT_TRUE(refused(8, 2)) << "attach is neither there nor not";
  EXPECT_TRUE(refused(9, 65)) << "too many NICs";
  EXPECT_TRUE(refused(10, 3)) << "an unknown path";
  EXPECT_TRUE(refused(11, 1)) << "what has to be zero";
  EXPECT_TRUE(refused(36, 0x80)) << "an expiry that no clock reaches";
  EXPECT_FALSE(refused(7, 1)) << "the seal fits";
}

TEST(MemoryKeyCodec, InsaneValuesAreNotForKeys) {
  MemoryKeyInfo key = some_keys()[1];
  key.access = Access::remote_read | Access::local_write;
  EXPECT_FALSE(wire::is_sane(key));
  key = some_keys()[1];
  key.expires = Expiry(std::chrono::nanoseconds(-1));
  EXPECT_FALSE(wire::is_sane(key));
  key = some_keys()[1];
  key.attach->socket = std::string(wire::kMaxSocketBytes + 1, 'x');
  EXPECT_FALSE(wire::is_sane(key));
}

MemoryKeyInfo any_key() {
  MemoryKeyInfo key;
  key.type = *rc::gen::elementOf(std::vector(kMemoryTypes.begin(), kMemoryTypes.end()));
  if (key.type != MemoryType::host)
    key.path = *rc::gen::element(Path::host, Path::zero_copy, Path::peer_memory);
  key.address = *rc::gen::arbitrary<std::uint64_t>();
  const std::uint64_t room = ~std::uint64_t{0} - key.address;
  RC_PRE(room > 0U);
  key.length_bytes = 1 + *rc::gen::arbitrary<std::uint64_t>() % room;
  key.access = *rc::gen::element(Access::remote_write, Access::remote_read,
                                 Access::remote_write | Access::remote_read, Access::remote_atomic);
  key.incarnation = *rc::gen::nonZero<std::uint64_t>();
  key.token = *rc::gen::nonZero<std::uint64_t>();
  if (*rc::gen::arbitrary<bool>())
    key.expires = Expiry(std::chrono::nanoseconds(*rc::gen::positive<std::int64_t>()));
  const auto nics = *rc::gen::inRange<unsigned>(0, wire::kMaxKeyNics + 1);
  if (nics == 0 && key.type != MemoryType::host) key.path = Path::staged;
  for (unsigned i = 0; i < nics; ++i) {
    MemoryKeyNic nic{.gid = {}, .remote_key = *rc::gen::arbitrary<std::uint32_t>()};
    nic.gid = {0xfe, static_cast<std::uint8_t>(i), *rc::gen::arbitrary<std::uint8_t>()};
    key.nics.push_back(nic);
  }
  if (*rc::gen::arbitrary<bool>()) {
    const auto length = *rc::gen::inRange<std::size_t>(1, wire::kMaxSocketBytes + 1);
    key.attach.emplace();
    key.attach->socket = *rc::gen::container<std::string>(length, rc::gen::arbitrary<char>());
    for (auto& byte : key.attach->secret) byte = *rc::gen::arbitrary<std::uint8_t>();
  }
  return key;
}

TEST(MemoryKeyCodec, AnySaneKeySurvives) {
  EXPECT_TRUE(rc::check("encode, decode", [] {
    const MemoryKeyInfo key = any_key();
    RC_ASSERT(wire::is_sane(key));
    const auto bytes = wire::encode(key);
    const auto decoded = decode(bytes);
    RC_ASSERT(decoded.has_value());
    RC_ASSERT(*decoded == key);
    RC_ASSERT(wire::encode(*decoded) == bytes);
  }));
}

}  // namespace
}  // namespace hbmwire

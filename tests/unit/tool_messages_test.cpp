// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "tools/wire/codec.hpp"
#include "tools/wire/messages.hpp"

namespace hbmwire::tools::wire {
namespace {

constexpr std::size_t kHeader = 6;

PerfRequest perf_request() {
  PerfRequest request;
  request.test = PerfTest::send_bw;
  request.connection = PerfConnection::ud;
  request.bidirectional = true;
  request.memory = "gaudi:1";
  return request;
}

PerfSide perf_side() {
  PerfSide side;
  side.host = "node1";
  side.explanation = {"not by zero_copy: refused"};
  side.limits = {{.kind = 1, .bytes_per_second = 1ULL << 33, .what = "PCIe 4.0 x8"}};
  side.on_device = true;
  return side;
}

PerfQueues perf_queues(const Address& address) {
  PerfQueues queues;
  queues.first = address.connection;
  queues.memory = address.memory;
  queues.queues = {{0xabcdef, 1}, {2, 0xffffff}};
  queues.service_port = 7471;
  return queues;
}

std::vector<Message> one_of_each() {
  Hello hello{Hello::Job::file, 4096, 3, 7, 1ULL << 40, "weights.bin", "gaudi2"};
  Address address;
  address.connection.gid = {0xfe, 0x80, 1, 2, 3};
  address.connection.queue_pair = 0xabcdef;
  address.connection.packet_sequence = 0xffffff;
  address.connection.mtu_bytes = 4096;
  address.connection.lid = 7;
  address.connection.max_message_bytes = 1ULL << 31;
  address.connection.incarnation = 0x0123456789abcdefULL;
  address.memory = {0x1001001800000000ULL, 1ULL << 30, 0x01020304};
  FileDone done;
  done.digest.fill(0x5a);
  done.bytes = 3;
  return {hello,
          Welcome{4096, "host"},
          address,
          Ready{9},
          Verdict{"send", 2, 100, 1, 99, 0xaa, 0xab},
          PieceSaved{1ULL << 33},
          done,
          Abort{"no room"},
          Bye{},
          perf_request(),
          perf_side(),
          perf_queues(address),
          PerfReport{.messages = 5000, .average_bytes_per_second = 1.5e9, .problem = "none"}};
}

std::uint16_t type_of(const std::vector<std::byte>& frame) {
  return static_cast<std::uint16_t>(std::to_integer<unsigned>(frame[4]) << 8 |
                                    std::to_integer<unsigned>(frame[5]));
}

TEST(Messages, SurviveEncodingAndDecoding) {
  for (const Message& message : one_of_each()) {
    const auto frame = encode(message);
    const auto decoded = decode(type_of(frame), std::span(frame).subspan(kHeader));
    ASSERT_TRUE(decoded) << name_of(message);
    EXPECT_EQ(*decoded, message) << name_of(message);
  }
}

TEST(Messages, RefuseEveryTruncation) {
  for (const Message& message : one_of_each()) {
    const auto frame = encode(message);
    for (std::size_t length = kHeader; length < frame.size(); ++length) {
      const auto payload = std::span(frame).subspan(kHeader, length - kHeader);
      EXPECT_FALSE(decode(type_of(frame), payload)) << name_of(message) << " cut to " << length;
    }
  }
}

TEST(Messages, RefuseTrailingBytesAndUnknownTypes) {
  auto frame = encode(Ready{1});
  frame.push_back(std::byte{0});
  EXPECT_FALSE(decode(type_of(frame), std::span(frame).subspan(kHeader)));
  EXPECT_FALSE(decode(0, {}));
  EXPECT_FALSE(decode(10, {}));
}

TEST(Messages, RefuseAddressesThatNoNicCanHave) {
  Address address;
  address.connection.max_message_bytes = 1;
  address.connection.incarnation = 1;
  const auto refused = [](const Address& a) {
    const auto frame = encode(a);
    return !decode(type_of(frame), std::span(frame).subspan(kHeader));
  };
  EXPECT_FALSE(refused(address));
  Address wide = address;
  wide.connection.queue_pair = 1U << 24;
  EXPECT_TRUE(refused(wide));
  Address wrapping = address;
  wrapping.memory = {~0ULL, 2, 0};
  EXPECT_TRUE(refused(wrapping));
  Address silent = address;
  silent.connection.max_message_bytes = 0;
  EXPECT_TRUE(refused(silent));
  Address nobody = address;
  nobody.connection.incarnation = 0;
  EXPECT_TRUE(refused(nobody));
}

/// Decodes the payload of a message with one byte changed.
Result<Message> decode_with(const Message& message, std::size_t at, std::uint8_t value) {
  auto frame = encode(message);
  frame.at(kHeader + at) = static_cast<std::byte>(value);
  return decode(type_of(frame), std::span(frame).subspan(kHeader));
}

TEST(Messages, RefusePerfRequestsOutOfBounds) {
  const PerfRequest good = perf_request();
  EXPECT_FALSE(decode_with(good, 0, 0));   // no such test
  EXPECT_FALSE(decode_with(good, 0, 15));  // an unknown test
  EXPECT_FALSE(decode_with(good, 1, 4));   // no such type of connection
  const std::vector<void (*)(PerfRequest&)> mistakes{
      [](PerfRequest& r) { r.size_bytes = 0; },
      [](PerfRequest& r) { r.size_bytes = kMaxPerfSizeBytes + 1; },
      [](PerfRequest& r) { r.duration_s = 5; },  // in addition to iterations
      [](PerfRequest& r) { r.iterations = 0; },
      [](PerfRequest& r) { r.queue_pairs = 0; },
      [](PerfRequest& r) { r.queue_pairs = kMaxPerfQueuePairs + 1; },
      [](PerfRequest& r) { r.tx_depth = 0; },
      [](PerfRequest& r) { r.rx_depth = kMaxPerfDepth + 1; },
      [](PerfRequest& r) { r.post_list = r.tx_depth + 1; },
      [](PerfRequest& r) { r.cq_moderation = r.tx_depth + 1; },
      [](PerfRequest& r) { r.flows = 0; },
      [](PerfRequest& r) { r.burst = 0; },
      [](PerfRequest& r) { r.service_level = 16; },
      [](PerfRequest& r) { r.ack_timeout = 32; },
      [](PerfRequest& r) { r.retries = 8; }};
  for (const auto& mistake : mistakes) {
    PerfRequest bad = good;
    mistake(bad);
    const auto frame = encode(bad);
    EXPECT_FALSE(decode(type_of(frame), std::span(frame).subspan(kHeader)))
        << "mistake " << (&mistake - mistakes.data());
  }
}

TEST(Messages, RefuseInvalidNumbers) {
  for (const double number :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    PerfReport report;
    report.cpu_user = number;
    const auto frame = encode(report);
    EXPECT_FALSE(decode(type_of(frame), std::span(frame).subspan(kHeader)));
  }
}

TEST(Messages, CutListsThatAreTooLong) {
  PerfSide side;
  side.explanation.assign(kMaxPerfListLength + 5, "why");
  const auto frame = encode(side);
  const auto decoded = decode(type_of(frame), std::span(frame).subspan(kHeader));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(std::get<PerfSide>(*decoded).explanation.size(), kMaxPerfListLength);
}

TEST(Messages, SurviveRandomBytes) {
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> payload(random() % 200);
    for (auto& byte : payload) byte = static_cast<std::byte>(random() & 0xff);
    const auto message = decode(static_cast<std::uint16_t>(random() % 12), payload);
    if (!message) {
      EXPECT_EQ(message.error().code, Errc::protocol);
    }
  }
}

TEST(Messages, LongTextsAreCutNotRefused) {
  const auto frame = encode(Abort{std::string(100000, 'x')});
  const auto decoded = decode(type_of(frame), std::span(frame).subspan(kHeader));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(std::get<Abort>(*decoded).text.size(), kMaxTextBytes);
}

TEST(Printable, ReplacesControlCharacters) { EXPECT_EQ(printable("a\x1b[2Jb\n\xff"), "a?[2Jb??"); }

TEST(MessageReader, FailsForGoodAfterTheFirstShortRead) {
  const std::vector<std::byte> bytes(3);
  Reader in(bytes);
  std::uint32_t four = 1;
  std::uint8_t one = 1;
  in.number(four);
  in.number(one);
  EXPECT_EQ(four, 0U);
  EXPECT_EQ(one, 0U);
  EXPECT_FALSE(in.complete());
}

}  // namespace
}  // namespace hbmwire::tools::wire

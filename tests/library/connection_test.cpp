// SPDX-License-Identifier: MIT
#include "hbmwire/low_level/connection.hpp"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "hbmwire/buffer.hpp"
#include "hbmwire/fd.hpp"

#include "helpers.hpp"
#include "open_memory.hpp"
#include "tests/support/bytes.hpp"

namespace hbmwire {
namespace {

using namespace std::chrono_literals;
using test::kAll;
using test::pattern;
using test::soon;

/// Two connected queue pairs on two NICs with a buffer at each, for every combination of memories.
class ConnectionTest : public testing::TestWithParam<std::pair<MemoryType, MemoryType>> {
 protected:
  static constexpr std::size_t kSize = 1 << 20;

  struct Side {
    Nic nic;
    Buffer buffer;
    Connection connection;
  };

  static Side make_side(MemoryType type, const char* device, const char* card) {
    auto nic = Nic::open(device);
    EXPECT_TRUE(nic) << describe(nic.error());
    MemoryOptions options;
    if (type != MemoryType::host) options.device = card;
    if (type == MemoryType::gaudi) options.owner = MemoryOptions::Owner::hl_thunk;
    auto domain = test::open_memory(type, options);
    EXPECT_TRUE(domain) << describe(domain.error());
    auto buffer = Buffer::create(*domain, *nic, kSize, kAll);
    EXPECT_TRUE(buffer) << describe(buffer.error());
    auto connection = Connection::create(*nic, {});
    EXPECT_TRUE(connection) << describe(connection.error());
    return {std::move(*nic), std::move(*buffer), std::move(*connection)};
  }

  void SetUp() override {
    ASSERT_TRUE(a_.connection.connect(b_.connection.local()));
    ASSERT_TRUE(b_.connection.connect(a_.connection.local()));
  }

  static std::vector<std::byte> contents(Side& side, std::size_t offset, std::size_t size) {
    std::vector<std::byte> bytes(size);
    const auto read = side.buffer.read(offset, bytes, soon());
    EXPECT_TRUE(read) << describe(read.error());
    return bytes;
  }

  Side a_ = make_side(GetParam().first, "emu0", "0");
  Side b_ = make_side(GetParam().second, "emu1", "1");
};

TEST_P(ConnectionTest, SendsIntoAPostedReceive) {
  const auto sent = pattern(5000, 1);
  ASSERT_TRUE(a_.buffer.write(100, sent, soon()));
  ASSERT_TRUE(b_.connection.post_receive(7, {&b_.buffer.region(), 300, 6000}));
  ASSERT_TRUE(a_.connection.post_send(8, {&a_.buffer.region(), 100, sent.size()}));
  const auto done = a_.connection.wait(soon());
  ASSERT_TRUE(done) << describe(done.error());
  EXPECT_EQ((*done)->id, 8U);
  const auto received = b_.connection.wait(soon());
  ASSERT_TRUE(received) << describe(received.error());
  EXPECT_EQ((*received)->kind, Completion::Kind::receive);
  EXPECT_EQ((*received)->length_bytes, sent.size());
  EXPECT_EQ(contents(b_, 300, sent.size()), sent);
}

TEST_P(ConnectionTest, WritesWithImmediate) {
  const auto sent = pattern(kSize, 2);
  ASSERT_TRUE(a_.buffer.write(0, sent, soon()));
  ASSERT_TRUE(b_.connection.post_receive(1, {}));
  ASSERT_TRUE(a_.connection.post_write_immediate(2, {&a_.buffer.region(), 0, kSize},
                                                 b_.buffer.region().remote(), 77));
  const auto received = b_.connection.wait(soon());
  ASSERT_TRUE(received) << describe(received.error());
  EXPECT_EQ((*received)->kind, Completion::Kind::receive_write_immediate);
  EXPECT_TRUE((*received)->has_immediate);
  EXPECT_EQ((*received)->immediate, 77U);
  EXPECT_EQ((*received)->length_bytes, kSize);
  EXPECT_EQ(contents(b_, 0, kSize), sent);
}

TEST_P(ConnectionTest, AReadChangesNoByteBesideItsTarget) {
  const auto old = pattern(3000, 3);
  const auto there = pattern(1000, 4);
  ASSERT_TRUE(a_.buffer.write(0, old, soon()));
  ASSERT_TRUE(b_.buffer.write(4321, there, soon()));
  RemoteMemory source = b_.buffer.region().remote();
  source.address += 4321;
  ASSERT_TRUE(a_.connection.post_read(1, {&a_.buffer.region(), 1000, there.size()}, source));
  const auto done = a_.connection.wait(soon());
  ASSERT_TRUE(done) << describe(done.error());
  EXPECT_EQ((*done)->kind, Completion::Kind::read);
  auto expected = old;
  std::copy(there.begin(), there.end(), expected.begin() + 1000);
  EXPECT_EQ(contents(a_, 0, old.size()), expected);
}

TEST_P(ConnectionTest, RemoteKeyOfAnotherSizeIsRefusedByTheNic) {
  RemoteMemory target = b_.buffer.region().remote();
  target.address += kSize - 10;
  ASSERT_TRUE(a_.connection.post_write(1, {&a_.buffer.region(), 0, 11}, target));
  const auto done = a_.connection.wait(soon());
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().number, 10);  // IBV_WC_REM_ACCESS_ERR
  EXPECT_EQ(done.error().hint, Hint::remote_key);
}

TEST_P(ConnectionTest, SlicesOutsideTheirRegionAreRefusedAtPost) {
  const Region& region = a_.buffer.region();
  for (const Slice& slice :
       {Slice{&region, kSize, 1}, Slice{&region, 0, kSize + 1}, Slice{&region, ~0ULL, 2}}) {
    const auto posted = a_.connection.post_send(1, slice);
    ASSERT_FALSE(posted);
    EXPECT_EQ(posted.error().code, Errc::invalid_argument);
  }
}

TEST_P(ConnectionTest, ReadOnlySlicesAreRefusedAtPostAndTheConnectionGoesOn) {
  const auto closed = a_.nic.register_memory(a_.buffer.region().allocation(), Access::remote_read);
  ASSERT_TRUE(closed) << describe(closed.error());
  const Slice into = closed->slice(0, 100);
  for (const auto& refused : {a_.connection.post_read(1, into, b_.buffer.region().remote()),
                              a_.connection.post_receive(1, into)}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::permission_denied) << describe(refused.error());
    EXPECT_EQ(refused.error().hint, Hint::not_for_local_writing);
  }
  ASSERT_TRUE(a_.connection.post_write(2, into, b_.buffer.region().remote()));
  const auto done = a_.connection.wait(soon());
  ASSERT_TRUE(done) << describe(done.error());
  EXPECT_EQ((*done)->id, 2U);
}

TEST_P(ConnectionTest, WaitIsBoundedAndCancellable) {
  const auto late = a_.connection.wait({Deadline::after(50ms), -1});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::timed_out);
  const Fd cancel{::eventfd(1, EFD_CLOEXEC)};
  const auto cancelled = a_.connection.wait({Deadline::after(10s), cancel.get()});
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, Errc::cancelled);
  const auto other = a_.connection.wait(soon(), cancel.get());
  ASSERT_TRUE(other);
  EXPECT_FALSE(other->has_value());
}

TEST_P(ConnectionTest, WakesUpFromSleep) {
  ASSERT_TRUE(b_.connection.post_receive(1, {&b_.buffer.region(), 0, 100}));
  for (std::uint64_t round = 0; round < 200; ++round) {
    ASSERT_TRUE(a_.connection.post_send(round, {&a_.buffer.region(), 0, 100}));
    ASSERT_TRUE(b_.connection.wait(soon()));
    ASSERT_TRUE(b_.connection.post_receive(1, {&b_.buffer.region(), 0, 100}));
    ASSERT_TRUE(a_.connection.wait(soon()));
    // An empty wait arms the channel and sleeps. The next round must wake it.
    if (round % 50 == 0) {
      EXPECT_FALSE(b_.connection.wait({Deadline::after(2ms), -1}));
    }
  }
}

TEST_P(ConnectionTest, APeerThatIsGoneIsAnErrorInBoundedTime) {
  { const Connection gone = std::move(b_.connection); }
  ASSERT_TRUE(
      a_.connection.post_write(1, {&a_.buffer.region(), 0, 8}, b_.buffer.region().remote()));
  const auto done = a_.connection.wait(soon());
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::peer_failed);
  EXPECT_EQ(done.error().number, 12);  // IBV_WC_RETRY_EXC_ERR
}

INSTANTIATE_TEST_SUITE_P(AllMixes, ConnectionTest,
                         testing::Values(std::pair(MemoryType::host, MemoryType::host),
                                         std::pair(MemoryType::host, MemoryType::gaudi),
                                         std::pair(MemoryType::gaudi, MemoryType::host),
                                         std::pair(MemoryType::gaudi, MemoryType::gaudi)),
                         [](const auto& test) {
                           return std::string(to_string(test.param.first)) + "_to_" +
                                  std::string(to_string(test.param.second));
                         });

TEST(Nic, ChoosesRoceV2OverIpv4) {
  const auto nic = Nic::open();
  ASSERT_TRUE(nic) << describe(nic.error());
  EXPECT_EQ(nic->info().gid_type, "RoCE v2");
  EXPECT_EQ(nic->info().gid.find("::ffff:127."), 0U) << nic->info().gid;
  EXPECT_EQ(nic->info().mtu_bytes, 4096U);
  EXPECT_EQ(nic->info().pci_address.size(), 12U);
}

TEST(Nic, TakesNamesWithAndWithoutPort) {
  EXPECT_EQ(Nic::open("emu1")->info().name, "emu1");
  EXPECT_EQ(Nic::open("emu1:1")->info().port, 1);
  for (const char* name : {"emu9", "emu0:2", "emu0:x", "emu0:0", ":"}) {
    const auto nic = Nic::open(name);
    ASSERT_FALSE(nic) << name;
    EXPECT_EQ(nic.error().hint, Hint::no_such_rdma_device) << describe(nic.error());
  }
}

}  // namespace
}  // namespace hbmwire

// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "emulation/tests/nic/child_process.hpp"
#include "emulation/tests/nic/emulated_card.hpp"

/// --like-hardware=flush: NICs see a NIC's writes to a card's memory at once. The card's engines
/// see them after the same NIC has read from the card.
namespace hbmwire::test {
namespace {

/// `near` (emu0) has registered the card's memory. `far` (emu1) is connected to it and has only
/// memory of this process. The card holds 'o' (old) everywhere, and `far` writes 'n' (new).
class Flush : public testing::Test {
 protected:
  void SetUp() override { std::memset(pair_.a.buffer.data(), 'n', 1024); }

  /// `far` WRITEs `length` new bytes to the card.
  void write(std::uint64_t offset, std::uint32_t length) {
    ASSERT_EQ(far_.rdma(IBV_WR_RDMA_WRITE, 1, 0, length, address_of(mr_), offset), 0);
    expect_completion(far_, 1);
  }

  /// `far` READs from the card.
  void read(std::uint64_t offset, std::uint32_t length) {
    ASSERT_EQ(far_.rdma(IBV_WR_RDMA_READ, 2, 4096, length, address_of(mr_), offset), 0);
    expect_completion(far_, 2);
  }

  EmulatedCard card_;
  Pair pair_{{.device = "emu1"}, {.device = "emu0"}};
  Endpoint& far_ = pair_.a;
  Endpoint& near_ = pair_.b;
  Mr mr_ = card_.register_at(near_);
};

TEST_F(Flush, AWriteIsSeenByTheEnginesAfterARead) {
  write(100, 10);
  EXPECT_EQ(card_.nics_see(109), 'n');
  EXPECT_EQ(card_.engines_see(100), 'o');
  EXPECT_EQ(card_.engines_see(109), 'o');
  read(70000, 1);  // anywhere on the card
  EXPECT_EQ(card_.engines_see(100), 'n');
  EXPECT_EQ(card_.engines_see(109), 'n');
  EXPECT_EQ(card_.engines_see(110), 'o');
}

TEST_F(Flush, AReadSeesBytesInFlight) {
  write(0, 100);
  read(50, 50);
  EXPECT_EQ(far_.buffer[4096], 'n');
}

TEST_F(Flush, AReadOfNoBytesPushesNothing) {
  write(0, 8);
  read(0, 0);
  EXPECT_EQ(card_.engines_see(0), 'o');
}

TEST_F(Flush, NothingArrivesByItself) {
  write(0, 8);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(card_.engines_see(0), 'o');
}

TEST_F(Flush, AReceiveWaitsUntilTheNicGathersFromTheCard) {
  ibv_sge into = element_of(mr_, 300, 64);
  ibv_recv_wr receive{};
  receive.wr_id = 5;
  receive.sg_list = &into;
  receive.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(near_.qp.get(), &receive, &bad), 0);
  ASSERT_EQ(far_.send(6, 0, 40), 0);
  expect_completion(far_, 6);
  EXPECT_EQ(expect_completion(near_, 5).byte_len, 40U);
  EXPECT_EQ(card_.engines_see(300), 'o');
  // Bytes after the end of the message are not posted, so an engine may write there.
  const std::byte own{'e'};
  card_.writes().engine_writes({340, 1, card_.at(340)}, &own);
  ASSERT_EQ(far_.post_recv(7, 8192, 64), 0);
  ibv_send_wr send{};
  send.wr_id = 8;
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_SIGNALED;
  ASSERT_EQ(near_.post(send, {element_of(mr_, 0, 1)}), 0);
  expect_completion(near_, 8);
  EXPECT_EQ(card_.engines_see(300), 'n');
  EXPECT_EQ(card_.engines_see(340), 'e');
}

TEST_F(Flush, TheAnswerOfAReadWaitsToo) {
  ibv_send_wr request{};
  request.wr_id = 3;
  request.opcode = IBV_WR_RDMA_READ;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma.remote_addr = far_.address().buffer;
  request.wr.rdma.rkey = far_.address().rkey;
  ASSERT_EQ(near_.post(request, {element_of(mr_, 512, 100)}), 0);
  expect_completion(near_, 3);
  EXPECT_EQ(card_.nics_see(512), 'n');
  EXPECT_EQ(card_.engines_see(512), 'o');
  read(0, 1);
  EXPECT_EQ(card_.engines_see(512), 'n');
}

TEST_F(Flush, AnAtomicPushesEarlierWritesAndItsOwnResultWaits) {
  write(0, 8);
  ibv_send_wr request{};
  request.wr_id = 4;
  request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.atomic.remote_addr = EmulatedCard::kIova + 64;
  request.wr.atomic.rkey = mr_->rkey;
  request.wr.atomic.compare_add = 1;
  ASSERT_EQ(far_.post(request, {far_.element(4096, 8)}), 0);
  expect_completion(far_, 4);
  EXPECT_EQ(card_.engines_see(0), 'n');
  EXPECT_EQ(card_.nics_see(64), 'o' + 1);
  EXPECT_EQ(card_.engines_see(64), 'o');
}

TEST_F(Flush, AnotherNicsReadFindsTheBytesAndPushesNothing) {
  Pair other{{.device = "emu0"}, {.device = "emu1"}};
  const Mr through_other = card_.register_at(other.b);
  write(0, 8);
  ASSERT_EQ(other.a.rdma(IBV_WR_RDMA_READ, 9, 0, 8, address_of(through_other)), 0);
  expect_completion(other.a, 9);
  EXPECT_EQ(other.a.buffer[0], 'n');
  EXPECT_EQ(card_.engines_see(0), 'o');
}

TEST_F(Flush, BytesThatAnotherNicOverwritesHaveArrived) {
  Pair other{{.device = "emu0"}, {.device = "emu1"}};
  const Mr through_other = card_.register_at(other.b);
  write(0, 8);
  write(5000, 8);
  other.a.buffer[0] = '2';
  ASSERT_EQ(other.a.rdma(IBV_WR_RDMA_WRITE, 9, 0, 1, address_of(through_other), 4), 0);
  expect_completion(other.a, 9);
  EXPECT_EQ(card_.engines_see(0), 'n');
  EXPECT_EQ(card_.engines_see(4), 'n');
  EXPECT_EQ(card_.engines_see(5000), 'n') << "a NIC's writes stay in order";
  EXPECT_EQ(card_.nics_see(4), '2');
}

TEST_F(Flush, DeregisteringLeavesNothingUnderWay) {
  write(0, 8);
  mr_.reset();
  EXPECT_EQ(card_.engines_see(0), 'n');
}

TEST_F(Flush, AQueuePairsEndLosesNothing) {
  write(0, 8);
  { const Qp gone = near_.next_qp(); }
  mr_.reset();
  EXPECT_EQ(card_.engines_see(0), 'n');
}

/// Each mapping is as large as the card, and a process has room for only some hundreds of them.
TEST_F(Flush, RegionsAndQueuePairsShareTheMapping) {
  std::vector<Mr> regions;
  for (int i = 0; i < 20; ++i) regions.push_back(card_.register_at(near_));
  for (const Mr& region : regions) {
    ASSERT_EQ(far_.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, address_of(region)), 0);
    expect_completion(far_, 1);
  }
  std::ifstream maps("/proc/self/maps");
  int mapped = 0;
  for (std::string line; std::getline(maps, line);) mapped += line.ends_with("/posted") ? 1 : 0;
  EXPECT_EQ(mapped, 2) << "the test's and the NIC's";
}

TEST_F(Flush, AnExportOfSeveralRangesIsPostedWhereItsRangesAre) {
  const std::array pieces{emulation::ExportSegment{65536, 8192},
                          emulation::ExportSegment{4096, 4096}};
  const Mr mr = card_.register_pieces(near_, pieces);
  ASSERT_NE(mr, nullptr);
  ASSERT_EQ(far_.rdma(IBV_WR_RDMA_WRITE, 1, 0, 4, address_of(mr), 8190), 0);
  expect_completion(far_, 1);
  EXPECT_EQ(card_.nics_see(65536 + 8191), 'n');
  EXPECT_EQ(card_.nics_see(4097), 'n');
  for (const unsigned place : {65536U + 8191U, 4096U, 4097U})
    EXPECT_EQ(card_.engines_see(place), 'o');
  ASSERT_EQ(far_.rdma(IBV_WR_RDMA_READ, 2, 4096, 1, address_of(mr), 0), 0);
  expect_completion(far_, 2);
  for (const unsigned place : {65536U + 8190U, 65536U + 8191U, 4096U, 4097U})
    EXPECT_EQ(card_.engines_see(place), 'n') << place;
  for (const unsigned place : {65536U + 8189U, 4098U}) EXPECT_EQ(card_.engines_see(place), 'o');
}

TEST_F(Flush, OtherMemoryIsWrittenAtOnce) {
  ASSERT_EQ(far_.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, near_.address(), 16), 0);
  expect_completion(far_, 1);
  EXPECT_EQ(near_.buffer[16], 'n');
}

TEST(FlushPeers, AKilledWriterLosesNothing) {
  const EmulatedCard card;
  Child child([](const Line& line) {
    Endpoint self({.device = "emu1"});
    self.connect(line.exchange(self.address()));
    const auto target = line.receive<Address>();
    self.buffer[0] = 'n';
    ASSERT_EQ(self.rdma(IBV_WR_RDMA_WRITE, 1, 0, 1, target, 10), 0);
    expect_completion(self, 1);
    line.send(true);
    line.receive<bool>();
  });
  Endpoint self;
  const Mr mr = card.register_at(self);
  self.connect(child.line().exchange(self.address()));
  child.line().send(address_of(mr));
  ASSERT_TRUE(child.line().receive<bool>());
  child.kill();
  child.join();
  EXPECT_EQ(card.engines_see(10), 'o');
  // A flush by the NIC itself.
  Pair loop;
  const Mr again = card.register_at(loop.b);
  ASSERT_EQ(loop.a.rdma(IBV_WR_RDMA_READ, 2, 0, 1, address_of(again)), 0);
  expect_completion(loop.a, 2);
  EXPECT_EQ(card.engines_see(10), 'n');
}

TEST(FlushPeers, WritesForAKilledProcessArrive) {
  const EmulatedCard card;
  Child child([&](const Line& line) {
    Endpoint self;
    const Mr mr = card.register_at(self);
    self.connect(line.exchange(self.address()));
    line.send(address_of(mr));
    line.receive<bool>();
  });
  Endpoint self({.device = "emu1"});
  self.connect(child.line().exchange(self.address()));
  const auto target = child.line().receive<Address>();
  self.buffer[0] = 'n';
  ASSERT_EQ(self.rdma(IBV_WR_RDMA_WRITE, 1, 0, 1, target, 10), 0);
  expect_completion(self, 1);
  EXPECT_EQ(card.engines_see(10), 'o');
  child.kill();
  child.join();
  // The first process that meets the dead one notices its death, within 10 ms.
  std::optional<ibv_wc> done;
  do {
    ASSERT_EQ(self.rdma(IBV_WR_RDMA_WRITE, 2, 0, 1, target, 10), 0);
    done = self.wait();
    ASSERT_TRUE(done);
  } while (done->status == IBV_WC_SUCCESS);
  EXPECT_EQ(done->status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(card.engines_see(10), 'n');
}

}  // namespace
}  // namespace hbmwire::test

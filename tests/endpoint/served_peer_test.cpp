// SPDX-License-Identifier: MIT
#include <optional>

#include "hbmwire/log.hpp"
#include "hbmwire/settings.hpp"

#include "peer_process.hpp"

/// A peer in another process whose NIC does not reach its memory, so its process must help.
namespace hbmwire::test {
namespace {

PeerProcess::Options staged(MemoryType type) { return {.type = type, .nic = "emu1"}; }

/// This process' end.
struct Side {
  explicit Side(const PeerProcess& peer)
      : context(value(Context::create({.memory = {}, .nics = {"emu0"}}))),
        worker(value(Worker::create(context))),
        memory(context, MemoryType::host, PeerProcess::kBytes),
        endpoint(
            value(Endpoint::connect(worker, peer.address(), within(20s), {.peer_timeout = 400ms}))),
        target(value(endpoint.remote("target", within(20s)))) {
    memory.fill(1);
  }

  [[nodiscard]] Result<Transfer> start(bool gets) {
    const RemoteSlice there = target.slice(0, PeerProcess::kBytes);
    return gets ? endpoint.get(memory.all(), there) : endpoint.put(memory.all(), there);
  }

  Context context;
  Worker worker;
  Memory memory;
  Endpoint endpoint;
  RemoteRegion target;
};

class ServedByAProcess : public ::testing::TestWithParam<MemoryType> {
 protected:
  void SetUp() override {
    set_log_sink([](LogLevel, std::string_view) {});
  }

  void TearDown() override { set_log_sink({}); }
};

INSTANTIATE_TEST_SUITE_P(Devices, ServedByAProcess,
                         ::testing::Values(MemoryType::gaudi, MemoryType::cuda, MemoryType::rocm),
                         [](const auto& type) { return std::string(to_string(type.param)); });

TEST_P(ServedByAProcess, BytesGoThereAndBack) {
  const PeerProcess peer(staged(GetParam()));
  Side side(peer);
  good(value(side.start(false)).wait(within(10s)));
  EXPECT_NE(peer.changed_bytes(), 0U);
  const auto sent = side.memory.contents();
  side.memory.fill(2);
  good(value(side.start(true)).wait(within(10s)));
  EXPECT_TRUE(same_bytes(side.memory.contents(), sent));
}

TEST_P(ServedByAProcess, AStoppedPeerIsAwaitedUntilTheDeadline) {
  const PeerProcess peer(staged(GetParam()));
  Side side(peer);
  peer.stop();
  Transfer put = value(side.start(false));
  const Deadline longer_than_peer_timeout = Deadline::after(900ms);
  while (!longer_than_peer_timeout.passed()) side.worker.progress();
  EXPECT_FALSE(put.done()) << "a stopped peer is not dead";
  peer.go_on();
  good(put.wait(within(10s)));
  peer.stop();
  Transfer late = value(side.start(true));
  const auto over = late.wait(within(300ms));
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::timed_out) << describe(over.error());
  peer.go_on();
}

/// A vendor's library does not work in a process that is forked after its first use. Each test
/// therefore has one peer.
struct Kill {
  MemoryType type;
  int progress;  // calls of progress() at this end before the kill
  bool gets;
};

class ServedByAProcessThatIsKilled : public ::testing::TestWithParam<Kill> {};

INSTANTIATE_TEST_SUITE_P(
    AtAnyTime, ServedByAProcessThatIsKilled,
    ::testing::Values(Kill{MemoryType::gaudi, 0, false}, Kill{MemoryType::cuda, 10, true},
                      Kill{MemoryType::rocm, 100, false}, Kill{MemoryType::gaudi, 300, true},
                      Kill{MemoryType::cuda, 1000, false}, Kill{MemoryType::rocm, 3000, true}),
    [](const auto& kill) {
      return std::string(to_string(kill.param.type)) + std::to_string(kill.param.progress);
    });

TEST_P(ServedByAProcessThatIsKilled, ATransferEndsAndNothingMovesAfterwards) {
  set_log_sink([](LogLevel, std::string_view) {});
  PeerProcess peer(staged(GetParam().type));
  Side side(peer);
  Transfer transfer = value(side.start(GetParam().gets));
  for (int i = 0; i < GetParam().progress; ++i) side.worker.progress();
  peer.kill();
  const auto over = transfer.wait(within(5s));
  // The transfer may have completed before the kill.
  if (!over) {
    EXPECT_EQ(over.error().code, Errc::peer_failed) << describe(over.error());
    EXPECT_EQ(side.endpoint.phase(), EndpointPhase::failed);
  }
  const auto now = side.memory.contents();
  for (int i = 0; i < 200; ++i) side.worker.progress();
  EXPECT_TRUE(same_bytes(side.memory.contents(), now));
  set_log_sink({});
}

}  // namespace
}  // namespace hbmwire::test

// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "hbmwire/fd.hpp"
#include "hbmwire/log.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/settings.hpp"

#include "ipc_side.hpp"
#include "tests/library/emulated_hooks.hpp"
#include "tests/support/file_of_memory.hpp"

/// Memory of two processes of a node: the peer opens this end's memory, and its engine copies.
/// Between host memories this end's CPU copies. emu0 imports dma-bufs, emu1 does not; "none" means
/// TCP.
namespace hbmwire::test {
namespace {

constexpr std::uint64_t kBytes = PeerProcess::kBytes;
constexpr std::uint64_t kSmall = 4096;  // takes another path than IPC, by the tests' settings

std::mutex log_mutex;
std::vector<std::string> logged;

std::size_t logged_with(const std::string& text) {
  const std::scoped_lock lock(log_mutex);
  return static_cast<std::size_t>(
      std::count_if(logged.begin(), logged.end(),
                    [&](const auto& line) { return line.find(text) != std::string::npos; }));
}

template <class Base>
class Quiet : public Base {
 protected:
  void SetUp() override {
    ASSERT_EQ(::setenv("HBMWIRE_IPC_FROM", "64K", 1), 0);
    logged.clear();
    set_log_sink([](LogLevel, std::string_view line) {
      const std::scoped_lock lock(log_mutex);
      logged.emplace_back(line);
    });
  }

  void TearDown() override {
    set_log_sink({});
    ::unsetenv("HBMWIRE_IPC_FROM");
  }
};

using IpcPeer = Quiet<::testing::Test>;

/// The path if IPC is not used. Between devices that no NIC reaches, it is pieces that both
/// processes have mapped (Path::staged).
Path path_without_ipc(const IpcPair& pair) {
  const bool over_tcp = pair.type == MemoryType::host && std::string_view(pair.nic) == "none";
  return std::string_view(pair.nic) == "emu0" ? Path::nic_loopback
         : over_tcp                           ? Path::tcp
                                              : Path::staged;
}

/// Makes IPC fail while it lives: device memory gets no handle, and the descriptor by which the
/// peer opens host memory leads to /dev/null. It must live until the side's put or get has ended.
class TurnedBack {
 public:
  TurnedBack(const IpcPair& pair, const IpcSide& side) : vendor_(to_string(pair.type)) {
    if (pair.type != MemoryType::host) {
      fail_nth_call(vendor_, 0, EIO);
      return;
    }
    fd_ = file_of_memory(side.memory.address());
    kept_ = Fd(::fcntl(fd_, F_DUPFD_CLOEXEC, 0));
    const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    EXPECT_EQ(::dup3(null.get(), fd_, O_CLOEXEC), fd_);
  }

  TurnedBack(const TurnedBack&) = delete;
  TurnedBack& operator=(const TurnedBack&) = delete;

  ~TurnedBack() {
    if (kept_) {
      ::dup3(kept_.get(), fd_, O_CLOEXEC);
    } else {
      fail_nth_call(vendor_, -1, 0);
    }
  }

 private:
  std::string_view vendor_;
  int fd_ = -1;
  Fd kept_;
};

using IpcPairs = Quiet<::testing::TestWithParam<IpcPair>>;

INSTANTIATE_TEST_SUITE_P(All, IpcPairs, ::testing::ValuesIn(kIpcPairs), name_of);

TEST_P(IpcPairs, BytesGoThereAndBack) {
  const PeerProcess peer(options_of(GetParam()));
  IpcSide side(peer, GetParam().type, GetParam().nic);
  const auto sent = side.contents();
  Transfer put = side.put();
  good(put.wait(within(10s)));
  EXPECT_EQ(put.path(), Path::ipc);
  EXPECT_TRUE(put.explain().ipc.taken);
  EXPECT_EQ(put.explain().protocol, Protocol::proxied);
  EXPECT_NE(peer.changed_bytes(), 0U);
  side.fill(2);
  Transfer get = side.get();
  good(get.wait(within(10s)));
  EXPECT_EQ(get.path(), Path::ipc);
  EXPECT_TRUE(same_bytes(side.contents(), sent));
  EXPECT_EQ(logged_with("IPC"), 0U);
}

TEST_P(IpcPairs, SmallTransfersTakeAnotherPath) {
  const PeerProcess peer(options_of(GetParam()));
  IpcSide side(peer, GetParam().type, GetParam().nic);
  Transfer put = side.put(0, kSmall);
  good(put.wait(within(10s)));
  const bool over_tcp = std::string_view(GetParam().nic) == "none";
  EXPECT_EQ(put.path(), over_tcp ? Path::tcp : path_without_ipc(GetParam()));
  const TransferReport report = put.explain();
  ASSERT_TRUE(report.ipc.refusal);
  EXPECT_NE(describe(*report.ipc.refusal).find("HBMWIRE_IPC_FROM"), std::string::npos);
}

TEST_P(IpcPairs, OrderHoldsBetweenIpcAndTheOtherPath) {
  const PeerProcess peer(options_of(GetParam()));
  IpcSide side(peer, GetParam().type, GetParam().nic);
  auto expected = side.contents();
  std::vector<Transfer> all;
  all.push_back(side.put());
  good(all.back().wait(within(10s)));
  side.fill(3);
  const auto newer = side.contents();
  // The transfers below are all in flight together: each must find the bytes of earlier puts.
  for (const std::uint64_t at : {std::uint64_t{8192}, kBytes - kSmall}) {
    all.push_back(side.put(at, kSmall));
    std::copy_n(newer.begin() + static_cast<std::ptrdiff_t>(at), kSmall,
                expected.begin() + static_cast<std::ptrdiff_t>(at));
  }
  const Allocation into = allocate_shareable(side.context, GetParam().type, kBytes);
  const Region there = value(side.context.register_memory(into, kAll));
  all.push_back(value(side.endpoint.get(there.slice(0, kBytes), side.target.slice(0, kBytes))));
  all.push_back(side.put());
  for (Transfer& each : all) good(each.wait(within(10s)));
  EXPECT_EQ(all[3].path(), Path::ipc);
  std::vector<std::byte> had(kBytes);
  good(into.domain().copy_out(into.address(), had, within(20s)));
  EXPECT_TRUE(same_bytes(had, expected));
  side.expect_there(newer);
}

TEST_P(IpcPairs, APutOfARangeLeavesTheRestAsItWas) {
  const PeerProcess peer(options_of(GetParam()));
  IpcSide side(peer, GetParam().type, GetParam().nic);
  auto expected = side.contents();
  good(side.put().wait(within(10s)));
  side.fill(4);
  constexpr std::uint64_t kAt = 12345;
  constexpr std::uint64_t kLength = (std::uint64_t{1} << 16U) + 4321;
  const auto newer = side.contents();
  good(side.put(kAt, kLength).wait(within(10s)));
  std::copy_n(newer.begin() + kAt, kLength, expected.begin() + kAt);
  side.expect_there(expected);
}

TEST_P(IpcPairs, APeerWhosePolicyExcludesIpcIsReachedByTheOtherPath) {
  PeerProcess::Options options = options_of(GetParam());
  options.paths.allow = {Path::host, Path::zero_copy, Path::staged, Path::tcp};
  const PeerProcess peer(options);
  IpcSide side(peer, GetParam().type, GetParam().nic);
  const auto sent = side.contents();
  for (int i = 0; i < 2; ++i) {
    Transfer put = side.put();
    good(put.wait(within(10s)));
    EXPECT_EQ(put.path(), path_without_ipc(GetParam()));
    ASSERT_TRUE(put.explain().ipc.refusal);
    EXPECT_NE(describe(*put.explain().ipc.refusal).find("log"), std::string::npos);
  }
  EXPECT_EQ(logged_with("not by IPC"), 1U);
  side.expect_there(sent);
  EXPECT_EQ(internals::look_at_endpoint(side.worker).copies_asked, 1U) << "the peer is asked once";
}

TEST_P(IpcPairs, AGetTurnedBackByIpcBringsTheBytes) {
  const PeerProcess peer(options_of(GetParam()));
  IpcSide side(peer, GetParam().type, GetParam().nic);
  // Nothing was put before, so no flush is needed and the handle is requested at once.
  const TurnedBack refusal(GetParam(), side);
  Transfer get = side.get();
  good(get.wait(within(10s)));
  EXPECT_EQ(get.path(), path_without_ipc(GetParam()));
  EXPECT_TRUE(same_bytes(side.contents(), std::vector<std::byte>(kBytes)));
}

TEST_P(IpcPairs, EveryLevelAndAnImmediateArriveWithAndWithoutIpc) {
  const PeerProcess peer(options_of(GetParam()));
  IpcSide side(peer, GetParam().type, GetParam().nic);
  for (const bool turned_back : {false, true}) {
    side.fill(turned_back ? 8 : 9);
    const auto sent = side.contents();
    std::optional<TurnedBack> refusal;
    if (turned_back) refusal.emplace(GetParam(), side);
    Transfer put =
        value(side.endpoint.put(side.region.slice(0, kBytes), side.target.slice(0, kBytes),
                                {.level = CompletionLevel::visible, .immediate = 7}));
    good(put.wait(within(10s)));
    EXPECT_EQ(put.path(), turned_back ? path_without_ipc(GetParam()) : Path::ipc);
    side.expect_there(sent);
  }
}

TEST_P(IpcPairs, RefusedTransfersTakeTheOtherPath) {
  const PeerProcess peer(options_of(GetParam()));
  IpcSide side(peer, GetParam().type, GetParam().nic);
  const auto sent = side.contents();
  const TurnedBack refusal(GetParam(), side);
  Transfer put = side.put();
  good(put.wait(within(10s)));
  EXPECT_EQ(put.path(), path_without_ipc(GetParam()));
  EXPECT_EQ(logged_with("not by IPC"), 1U);
  side.expect_there(sent);
}

/// The NIC carries lists. Tests host memory, because reading a device would already make the
/// written bytes visible.
TEST_P(IpcPairs, AGetSeesTheBytesOfAnEarlierList) {
  if (std::string_view(GetParam().nic) != "emu0") return;  // without emu0, no NIC carries a list
  const PeerProcess peer(options_of(GetParam()));
  IpcSide side(peer, GetParam().type, GetParam().nic);
  Memory source(side.context, MemoryType::host, kBytes);
  const TransferPart part{source.all(), side.target.slice(0, kBytes)};
  PreparedTransfer list = value(side.endpoint.prepare_put({&part, 1}));
  for (unsigned round = 1; round < 4; ++round) {
    source.fill(round);
    Transfer listed = value(list.post());
    Transfer get = side.get();
    good(listed.wait(within(10s)));
    good(get.wait(within(10s)));
    EXPECT_EQ(get.path(), Path::ipc);
    EXPECT_TRUE(same_bytes(side.contents(), source.contents())) << round;
  }
}

TEST_P(IpcPairs, AWrongKeyEndsTheEndpoint) {
  const PeerProcess peer(options_of(GetParam()));
  IpcSide side(peer, GetParam().type, GetParam().nic);
  auto other = internals::look_at(side.target);
  other.token ^= 1U;
  internals::set(side.target, other);
  Transfer put = side.put();
  const auto over = put.wait(within(10s));
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::permission_denied) << describe(over.error());
  EXPECT_TRUE(put.settled());
  EXPECT_EQ(side.endpoint.phase(), EndpointPhase::failed);
  EXPECT_EQ(peer.changed_bytes(), 0U);
}

TEST_P(IpcPairs, FreedMemoryIsFreeAtOnce) {
  const PeerProcess peer(options_of(GetParam()));
  IpcSide side(peer, GetParam().type, GetParam().nic);
  if (GetParam().type == MemoryType::host) {
    good(side.put().wait(within(10s)));
    EXPECT_EQ(peer.mappings_of(kBytes), 0U);
    return;
  }
  const auto domain = value(side.context.open(GetParam().type));
  const std::uint64_t most = domain->device().size_bytes * 6 / 10;
  for (int i = 0; i < 3; ++i) {
    // The device has no room for two such memories: the peer must have released the last one.
    const auto large = domain->allocate(most);
    ASSERT_TRUE(large) << describe(large.error());
    const Region region = value(side.context.register_memory(*large, Access::local_write));
    good(value(side.endpoint.put(region.slice(0, kBytes), side.target.slice(0, kBytes)))
             .wait(within(10s)));
  }
}

TEST_P(IpcPairs, AStoppedPeerIsAwaitedUntilTheDeadline) {
  const PeerProcess peer(options_of(GetParam()));
  IpcSide side(peer, GetParam().type, GetParam().nic);
  peer.stop();
  Transfer put = side.put();
  const Deadline longer_than_peer_timeout = Deadline::after(900ms);
  while (!longer_than_peer_timeout.passed()) side.worker.progress();
  EXPECT_FALSE(put.done()) << "a stopped peer is not dead";
  EXPECT_EQ(internals::look_at(side.worker).staged, 0U)
      << "a worker that waits for the peer's answer may sleep";
  peer.go_on();
  good(put.wait(within(10s)));
  peer.stop();
  Transfer late = side.get();
  const auto over = late.wait(within(300ms));
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::timed_out) << describe(over.error());
  EXPECT_FALSE(late.settled());
  EXPECT_EQ(internals::look_at(side.worker).staged, 0U);
  peer.go_on();
}

TEST_P(IpcPairs, ACancelledGetIsSettledWhenThePeerSaysSo) {
  const PeerProcess peer(options_of(GetParam()));
  IpcSide side(peer, GetParam().type, GetParam().nic);
  Transfer first = side.get();
  Transfer second = side.put();
  good(first.cancel());
  EXPECT_TRUE(first.settled());
  EXPECT_TRUE(second.done());
  const auto now = side.contents();
  for (int i = 0; i < 200; ++i) side.worker.progress();
  EXPECT_TRUE(same_bytes(side.contents(), now));
}

/// The peer's engines take 150 ms for a copy.
class SlowIpcPeer : public Quiet<::testing::TestWithParam<MemoryType>> {
 protected:
  void SetUp() override {
    Quiet::SetUp();
    for (const char* const variable : kDelays) ASSERT_EQ(::setenv(variable, "150000", 1), 0);
  }

  /// Engines of this process take no extra time. Call it after the peer's process has begun.
  static void make_quick() {
    for (const char* const variable : kDelays) ::unsetenv(variable);
  }

  /// Expects that enough time has passed for the engine's copy to end.
  void expect_engine_done() const { EXPECT_GE(std::chrono::steady_clock::now() - begun_, 150ms); }

  std::chrono::steady_clock::time_point begun_;
  static constexpr std::array kDelays{"HBMWIRE_EMULATION_CUDA_DELAY_US",
                                      "HBMWIRE_EMULATION_ROCM_DELAY_US"};
};

INSTANTIATE_TEST_SUITE_P(Devices, SlowIpcPeer,
                         ::testing::Values(MemoryType::cuda, MemoryType::rocm),
                         [](const auto& type) { return std::string(to_string(type.param)); });

// The peer closes its lanes long before its engine has finished.
TEST_P(SlowIpcPeer, APeerThatBreaksOffIsAwaitedUntilItsEngineIsDone) {
  const PeerProcess peer({.type = GetParam(), .nic = "emu0"});
  make_quick();
  IpcSide side(peer, GetParam());
  begun_ = std::chrono::steady_clock::now();
  Transfer get = side.get();
  const Deadline asked = Deadline::after(50ms);
  while (!asked.passed()) side.worker.progress();
  peer.drop_endpoints();
  const auto over = get.wait(within(10s));
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::peer_failed) << describe(over.error());
  EXPECT_TRUE(get.settled());
  EXPECT_TRUE(internals::look_at_endpoint(side.worker).peer_is_quiet)
      << "the peer reported its end, instead of the time running out";
  expect_engine_done();
}

TEST_P(SlowIpcPeer, ACancelledGetIsOverWhenTheEngineIs) {
  const PeerProcess peer({.type = GetParam(), .nic = "emu0"});
  make_quick();
  IpcSide side(peer, GetParam());
  begun_ = std::chrono::steady_clock::now();
  Transfer get = side.get();
  const Deadline asked = Deadline::after(50ms);
  while (!asked.passed()) side.worker.progress();
  good(get.cancel());
  EXPECT_TRUE(get.settled());
  expect_engine_done();
}

TEST_P(IpcPairs, CloseWaitsForAPut) {
  const PeerProcess peer(options_of(GetParam()));
  IpcSide side(peer, GetParam().type, GetParam().nic);
  Transfer put = side.put();
  good(side.endpoint.close(within(10s)));
  EXPECT_TRUE(put.done());
  good(put.wait(within(1s)));
}

struct Kill {
  IpcPair pair;
  int progress;  // calls of progress() at this end before the kill
  bool gets;
};

class IpcPeerThatIsKilled : public Quiet<::testing::TestWithParam<Kill>> {};

INSTANTIATE_TEST_SUITE_P(
    AtAnyTime, IpcPeerThatIsKilled,
    ::testing::Values(Kill{kIpcPairs[0], 0, false}, Kill{kIpcPairs[4], 3, true},
                      Kill{kIpcPairs[2], 10, true}, Kill{kIpcPairs[3], 30, false},
                      Kill{kIpcPairs[1], 100, true}, Kill{kIpcPairs[0], 300, true},
                      Kill{kIpcPairs[5], 1000, false}, Kill{kIpcPairs[6], 0, true},
                      Kill{kIpcPairs[6], 3, false}, Kill{kIpcPairs[7], 10, false},
                      Kill{kIpcPairs[8], 30, true}),
    [](const auto& kill) {
      return std::string(to_string(kill.param.pair.type)) + std::to_string(kill.param.progress);
    });

TEST_P(IpcPeerThatIsKilled, EndsItsTransferAndNothingMovesAfterwards) {
  const IpcPair& pair = GetParam().pair;
  PeerProcess peer(options_of(pair));
  IpcSide side(peer, pair.type, pair.nic);
  Transfer transfer = GetParam().gets ? side.get() : side.put();
  for (int i = 0; i < GetParam().progress; ++i) side.worker.progress();
  peer.kill();
  const auto begun = std::chrono::steady_clock::now();
  const auto over = transfer.wait(within(5s));
  // At most twice the peer_timeout, and extra time for a busy machine.
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 2 * 400ms + 1s);
  // The transfer may have completed before the kill.
  if (!over) {
    EXPECT_EQ(over.error().code, Errc::peer_failed) << describe(over.error());
    EXPECT_EQ(side.endpoint.phase(), EndpointPhase::failed);
  }
  const auto now = side.contents();
  for (int i = 0; i < 200; ++i) side.worker.progress();
  EXPECT_TRUE(same_bytes(side.contents(), now));
  EXPECT_EQ(internals::look_at(side.worker).staged, 0U);
}

TEST_P(IpcPairs, WithoutAPolicyIpcIsUsedWhereTheOtherPathNeedsThePeerToo) {
  const PeerProcess peer(options_of(GetParam()));
  IpcSide side(peer, GetParam().type, GetParam().nic, PathPolicy());
  const auto sent = side.contents();
  Transfer put = side.put();
  good(put.wait(within(10s)));
  const bool by_nic = path_without_ipc(GetParam()) == Path::nic_loopback;
  EXPECT_EQ(put.path(), by_nic ? Path::nic_loopback : Path::ipc);
  if (by_nic) {
    EXPECT_NE(describe(*put.explain().ipc.refusal).find("no policy names ipc"), std::string::npos);
  }
  side.expect_there(sent);
}

TEST_F(IpcPeer, ABusyPeerReceivesTransfersOfTheNic) {
  const PeerProcess peer({.type = MemoryType::cuda, .nic = "emu0", .busy = true});
  IpcSide side(peer, MemoryType::cuda, "emu0", PathPolicy());
  ::usleep(800'000);  // afterwards a busy peer makes no progress any more
  good(side.put().wait(within(2s)));
}

TEST_F(IpcPeer, AnotherGpusMemoryIsOpened) {
  const PeerProcess peer({.type = MemoryType::cuda, .nic = "emu0"});
  IpcSide side(peer, MemoryType::cuda, "emu0", kAsksFirst, "1");
  const auto sent = side.contents();
  Transfer put = side.put();
  good(put.wait(within(10s)));
  EXPECT_EQ(put.path(), Path::ipc);
  side.expect_there(sent);
}

TEST_F(IpcPeer, MemoryOfTwoVendorsGoesByTheNic) {
  const PeerProcess peer({.type = MemoryType::cuda, .nic = "emu0"});
  IpcSide side(peer, MemoryType::rocm);
  Transfer put = side.put();
  good(put.wait(within(10s)));
  EXPECT_EQ(put.path(), Path::nic_loopback);
  EXPECT_NE(describe(*put.explain().ipc.refusal).find("one vendor"), std::string::npos);
}

TEST_F(IpcPeer, ThePolicyChooses) {
  const PeerProcess peer({.type = MemoryType::cuda, .nic = "emu0"});
  {
    IpcSide side(peer, MemoryType::cuda, "emu0", {.require = Path::zero_copy});
    Transfer put = side.put();
    good(put.wait(within(10s)));
    EXPECT_EQ(put.path(), Path::nic_loopback);
    EXPECT_NE(describe(*put.explain().ipc.refusal).find("policy"), std::string::npos);
  }
  IpcSide side(peer, MemoryType::cuda, "emu0", {.require = Path::ipc});
  EXPECT_EQ(side.region.path(), Path::ipc);
  const auto sent = side.contents();
  // An operation without bytes matters only for the order, which the NIC keeps.
  good(side.put(0, 0).wait(within(10s)));
  good(side.get(0, 0).wait(within(10s)));
  for (const std::uint64_t bytes : {std::uint64_t{1}, kSmall, kBytes}) {
    Transfer put = side.put(0, bytes);
    good(put.wait(within(10s)));
    EXPECT_EQ(put.path(), Path::ipc);
  }
  side.expect_there(sent);
  Memory host(side.context, MemoryType::host, kBytes);
  const auto mixed = side.endpoint.put(host.all(), side.target.slice(0, kBytes));
  ASSERT_FALSE(mixed);
  EXPECT_EQ(mixed.error().code, Errc::permission_denied) << describe(mixed.error());
}

TEST_F(IpcPeer, WhereIpcIsRequiredAndThePeerRefusesItATransferFailsAlone) {
  const PeerProcess peer({.type = MemoryType::cuda,
                          .nic = "emu0",
                          .paths = {.allow = {Path::host, Path::zero_copy, Path::staged}}});
  IpcSide side(peer, MemoryType::cuda, "emu0", {.require = Path::ipc});
  for (int i = 0; i < 2; ++i) {
    Transfer put = side.put();
    const auto over = put.wait(within(10s));
    ASSERT_FALSE(over);
    EXPECT_EQ(over.error().code, Errc::not_supported) << describe(over.error());
    EXPECT_EQ(side.endpoint.phase(), EndpointPhase::ready);
  }
  EXPECT_EQ(peer.changed_bytes(), 0U);
}

/// Expects this path instead of IPC. `why`: a part of the reason in the report.
void expect_not_by_ipc(const Transfer& transfer, Path path, const char* why) {
  EXPECT_EQ(transfer.path(), path);
  const TransferReport report = transfer.explain();
  ASSERT_TRUE(report.ipc.refusal);
  EXPECT_NE(describe(*report.ipc.refusal).find(why), std::string::npos)
      << describe(*report.ipc.refusal);
}

/// Expects that this end's CPU copied, and that the peer got no request.
void expect_shared_memory(const IpcSide& side, const Transfer& transfer) {
  EXPECT_EQ(transfer.path(), Path::shared_memory);
  const PathTried tried = transfer.explain().ipc;
  EXPECT_EQ(tried.path, Path::shared_memory);
  EXPECT_TRUE(tried.taken);
  EXPECT_EQ(internals::look_at_endpoint(side.worker).copies_asked, 0U);
}

/// Between host memory of this end and this type of memory of the peer.
using HostToPeer = Quiet<::testing::TestWithParam<MemoryType>>;

INSTANTIATE_TEST_SUITE_P(Types, HostToPeer,
                         ::testing::Values(MemoryType::host, MemoryType::gaudi, MemoryType::cuda,
                                           MemoryType::rocm),
                         [](const auto& type) { return std::string(to_string(type.param)); });

TEST_P(HostToPeer, PrivateMemoryIsNotOpened) {
  const PeerProcess peer({.type = GetParam(), .nic = "none"});
  IpcSide side(peer, MemoryType::host, "none");
  Memory own(side.context, MemoryType::host, kBytes);
  own.fill(3);
  Transfer put = value(side.endpoint.put(own.all(), side.target.slice(0, kBytes)));
  good(put.wait(within(10s)));
  if (GetParam() == MemoryType::host) {
    expect_shared_memory(side, put);
  } else {
    expect_not_by_ipc(put, Path::tcp, "not `shared`");
  }
  EXPECT_EQ(internals::look_at_endpoint(side.worker).copies_asked, 0U);
  side.expect_there(own.contents());
}

TEST_P(HostToPeer, TheNicCarriesMemoryThatItReaches) {
  const PeerProcess peer({.type = GetParam(), .nic = "emu0"});
  const bool both_host = GetParam() == MemoryType::host;
  IpcSide side(peer, MemoryType::host, "emu0", both_host ? kWithoutSharedMemory : kAsksFirst);
  Transfer put = side.put();
  good(put.wait(within(10s)));
  expect_not_by_ipc(put, both_host ? Path::host : Path::nic_loopback,
                    both_host ? "policy excludes it" : "the NIC reaches");
}

TEST_F(IpcPeer, WhereIpcIsRequiredThisEndsCpuCopiesHostMemory) {
  const PeerProcess peer({.nic = "emu0"});
  IpcSide side(peer, MemoryType::host, "emu0", {.require = Path::ipc});
  const auto sent = side.contents();
  for (const std::uint64_t bytes : {std::uint64_t{1}, kSmall, kBytes}) {
    Transfer put = side.put(0, bytes);
    good(put.wait(within(10s)));
    expect_shared_memory(side, put);
  }
  side.expect_there(sent);
}

TEST_F(IpcPeer, ABusyPeerReceivesCopiesOfThisEndsCpu) {
  const PeerProcess peer({.nic = "none", .busy = true});
  IpcSide side(peer, MemoryType::host, "none", PathPolicy());
  ::usleep(800'000);  // afterwards a busy peer makes no progress any more
  const auto sent = side.contents();
  Transfer put = side.put();
  good(put.wait(within(2s)));
  expect_shared_memory(side, put);
  side.expect_there(sent);
}

TEST_F(IpcPeer, WhereIpcIsRequiredThePeersEngineCopiesHostMemoryToADevice) {
  const PeerProcess peer({.type = MemoryType::cuda, .nic = "emu0"});
  IpcSide side(peer, MemoryType::host, "emu0", {.require = Path::ipc});
  const auto sent = side.contents();
  for (const std::uint64_t bytes : {std::uint64_t{1}, kSmall, kBytes}) {
    Transfer put = side.put(0, bytes);
    good(put.wait(within(10s)));
    EXPECT_EQ(put.path(), Path::ipc);
  }
  side.expect_there(sent);
}

TEST_F(IpcPeer, LocalMemoryThatIsNotOpenToWritingTakesNoGet) {
  const PeerProcess peer({.type = MemoryType::cuda, .nic = "emu0"});
  IpcSide side(peer, MemoryType::cuda);
  const Region closed = value(side.context.register_memory(side.memory, Access::none));
  const auto get = side.endpoint.get(closed.slice(0, kBytes), side.target.slice(0, kBytes));
  ASSERT_FALSE(get);
  EXPECT_EQ(get.error().code, Errc::permission_denied) << describe(get.error());
}

}  // namespace
}  // namespace hbmwire::test

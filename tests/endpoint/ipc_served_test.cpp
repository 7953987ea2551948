// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "heard.hpp"
#include "ipc_side.hpp"
#include "tests/library/emulated_hooks.hpp"
#include "tests/support/few_descriptors.hpp"

/// The process that copies by IPC for its peer: its immediates, failures, log and keys.
namespace hbmwire::test {
namespace {

using Inside = PeerProcess::Inside;

constexpr std::uint64_t kWhole = PeerProcess::kBytes;

template <class Parameter>
class IpcServing : public ::testing::TestWithParam<Parameter> {
 protected:
  IpcServing() { ::setenv("HBMWIRE_IPC_FROM", "64K", 1); }

  ~IpcServing() override { ::unsetenv("HBMWIRE_IPC_FROM"); }

  Heard heard_;
};

std::uint64_t changed_in(const std::vector<std::byte>& bytes) {
  return bytes.size() -
         static_cast<std::uint64_t>(std::count(bytes.begin(), bytes.end(), std::byte{0}));
}

std::uint64_t lines_with(const Inside& inside, std::string_view text) {
  return static_cast<std::uint64_t>(
      std::count_if(inside.log.begin(), inside.log.end(),
                    [&](const auto& line) { return line.find(text) != std::string::npos; }));
}

using IpcServer = IpcServing<IpcPair>;

INSTANTIATE_TEST_SUITE_P(All, IpcServer, ::testing::ValuesIn(kIpcPairs), name_of);

TEST_P(IpcServer, ReceivesAnImmediateBehindTheBytes) {
  PeerProcess::Options options = options_of(GetParam());
  options.does = [](Inside& inside, std::int64_t immediate) {
    while (inside.endpoints.empty()) {
      auto accepted = inside.listener.accept(within(10s));
      if (accepted) inside.endpoints.push_back(std::move(*accepted));
    }
    auto told = inside.endpoints.back().receive_immediate();
    if (!told || !told->wait(within(10s)) || told->value() != static_cast<std::uint64_t>(immediate))
      return ~std::uint64_t{0};
    return changed_in(inside.memory.contents());
  };
  const PeerProcess peer(options);
  IpcSide side(peer, GetParam().type, GetParam().nic);
  const std::uint64_t changed = changed_in(side.contents());
  std::uint64_t seen = 0;
  std::thread asks([&] { seen = peer.call(7); });
  Transfer put = value(side.endpoint.put(side.region.slice(0, kWhole), side.target.slice(0, kWhole),
                                         {.immediate = 7}));
  good(put.wait(within(10s)));
  EXPECT_EQ(put.path(), Path::ipc);
  // The peer may still have to get the answer to an operation that has ended here.
  const Deadline sent = Deadline::after(100ms);
  while (!sent.passed()) side.worker.progress();
  asks.join();
  EXPECT_EQ(seen, changed);
}

TEST_P(IpcServer, FailsOneTransferWhereItsEngineFails) {
  PeerProcess::Options options = options_of(GetParam());
  options.does = [vendor = std::string(to_string(GetParam().peers))](Inside&, std::int64_t nth) {
    return static_cast<std::uint64_t>(fail_nth_call(vendor, nth, nth < 0 ? 0 : EIO));
  };
  const PeerProcess peer(options);
  unsigned failed = 0;
  IpcSide side(peer, GetParam().type, GetParam().nic);
  good(side.put().wait(within(10s)));
  for (std::int64_t nth = 0; nth < 24; ++nth) {
    side.fill(static_cast<unsigned>(nth) + 2);
    static_cast<void>(peer.call(nth));
    Transfer put = side.put();
    const auto over = put.wait(within(10s));
    const std::uint64_t calls = peer.call(-1);
    ASSERT_EQ(side.endpoint.phase(), EndpointPhase::ready) << nth;
    if (over) {
      side.expect_there(pattern(kWhole, static_cast<unsigned>(nth) + 2));
    } else {
      ++failed;
      EXPECT_EQ(over.error().code, Errc::peer_failed) << describe(over.error());
      EXPECT_TRUE(put.settled());
      EXPECT_EQ(put.path(), Path::ipc);
    }
    // The call that opens this end's memory may have failed, after which IPC is not tried again.
    internals::forget_refused_copy(side.worker);
    if (calls <= static_cast<std::uint64_t>(nth)) break;
  }
  EXPECT_NE(failed, 0U);
  Transfer last = side.put();
  good(last.wait(within(10s)));
  EXPECT_EQ(last.path(), Path::ipc);
}

TEST_P(IpcServer, LogsThatItsPolicyExcludesIpc) {
  PeerProcess::Options options = options_of(GetParam());
  options.paths.allow = {Path::host, Path::zero_copy, Path::staged, Path::tcp};
  options.does = [](Inside& inside, std::int64_t) {
    // The product is 1 if each of both lines was logged once.
    return lines_with(inside, "asked for a copy by IPC, and does not get it") *
           lines_with(inside, "the path policy of this end excludes ipc");
  };
  const PeerProcess peer(options);
  IpcSide side(peer, GetParam().type, GetParam().nic);
  for (int i = 0; i < 2; ++i) good(side.put().wait(within(10s)));
  EXPECT_EQ(peer.call(), 1U);
}

/// The vendor's call that opens memory fails; for host memory of this end, the mapping fails.
TEST_P(IpcServer, SaysWhyItOpensNothing) {
  if (GetParam().type == MemoryType::host) return;  // no call of its own can fail
  PeerProcess::Options options = options_of(GetParam());
  options.does = [vendor = std::string(to_string(GetParam().peers))](Inside& inside,
                                                                     std::int64_t nth) {
    if (nth >= 0) return static_cast<std::uint64_t>(fail_nth_call(vendor, nth, EIO));
    fail_nth_call(vendor, -1, 0);
    return lines_with(inside, "asked for a copy by IPC, and its memory can't be opened");
  };
  const PeerProcess peer(options);
  IpcSide side(peer, GetParam().type, GetParam().nic);
  static_cast<void>(peer.call(0));
  Transfer put = side.put();
  good(put.wait(within(10s)));
  EXPECT_NE(put.path(), Path::ipc);
  EXPECT_EQ(peer.call(-1), 1U);
  EXPECT_EQ(heard_.count("not by IPC"), 1U);
}

TEST_P(IpcServer, CopiesWithoutAWarningOfTcp) {
  const PeerProcess peer(options_of(GetParam()));
  IpcSide side(peer, GetParam().type, GetParam().nic);
  good(side.put().wait(within(10s)));
  Transfer get = side.get();
  good(get.wait(within(10s)));
  EXPECT_EQ(get.path(), Path::ipc);
  // Longer than the time between two checks of the endpoint, of which one would log the warning.
  const Deadline looked = Deadline::after(250ms);
  while (!looked.passed()) side.worker.progress();
  EXPECT_EQ(heard_.count("not zero-copy: one of both ends has no RDMA device"), 0U);
}

TEST_P(IpcServer, IsNotAskedForMemoryWithoutAHandle) {
  if (GetParam().type == MemoryType::host) return;  // shared host memory always has one
  PeerProcess::Options options = options_of(GetParam());
  options.does = [](Inside& inside, std::int64_t) { return lines_with(inside, "IPC"); };
  const PeerProcess peer(options);
  IpcSide side(peer, GetParam().type, GetParam().nic);
  fail_nth_call(to_string(GetParam().type), 0, EIO);
  Transfer put = side.put();
  good(put.wait(within(10s)));
  fail_nth_call(to_string(GetParam().type), -1, 0);
  EXPECT_NE(put.path(), Path::ipc);
  EXPECT_EQ(heard_.count("not by IPC"), 1U);
  EXPECT_EQ(peer.call(), 0U) << "the peer was asked for a copy of memory that can't be opened";
}

/// A shortage of descriptors may end, and is no reason to take another path.
TEST_P(IpcServer, FailsOneTransferWhereItIsShortOfDescriptors) {
  // Only host memory: vendors' libraries report the shortage by numbers of their own.
  if (GetParam().type != MemoryType::host) return;
  PeerProcess::Options options = options_of(GetParam());
  const auto few = std::make_shared<std::optional<FewDescriptors>>();
  options.does = [few](Inside&, std::int64_t on) {
    few->reset();
    if (on != 0) few->emplace(0);
    return std::uint64_t{0};
  };
  const PeerProcess peer(options);
  IpcSide side(peer, GetParam().type, GetParam().nic);
  for (int round = 0; round < 2; ++round) {
    static_cast<void>(peer.call(1));
    Transfer put = side.put();
    const auto over = put.wait(within(10s));
    ASSERT_FALSE(over);
    EXPECT_EQ(over.error().code, Errc::peer_failed) << describe(over.error());
    EXPECT_EQ(side.endpoint.phase(), EndpointPhase::ready);
    static_cast<void>(peer.call(0));
    Transfer later = side.put();
    good(later.wait(within(10s)));
    EXPECT_EQ(later.path(), Path::ipc);
  }
}

using IpcChoice = IpcServing<MemoryType>;

INSTANTIATE_TEST_SUITE_P(Devices, IpcChoice, ::testing::Values(MemoryType::cuda, MemoryType::rocm),
                         [](const auto& type) { return std::string(to_string(type.param)); });

TEST_P(IpcChoice, AnEndpointsPolicyMayAskThePeerFirst) {
  const PeerProcess peer({.type = GetParam(), .nic = "emu0"});
  IpcSide side(peer, GetParam(), "emu0", PathPolicy());
  Endpoint asks =
      value(Endpoint::connect(side.worker, peer.address(), within(20s), {.paths = kAsksFirst}));
  const RemoteRegion target = value(asks.remote("target", within(20s)));
  Transfer put = value(asks.put(side.region.slice(0, kWhole), target.slice(0, kWhole)));
  good(put.wait(within(10s)));
  EXPECT_EQ(put.path(), Path::ipc);
  Transfer other = side.put();
  good(other.wait(within(10s)));
  EXPECT_EQ(other.path(), Path::nic_loopback)
      << "the policy of `asks` does not count for another endpoint";
}

TEST_P(IpcChoice, WhereIpcIsRequiredAPutFailsWithTheDriversError) {
  const PeerProcess peer({.type = GetParam(), .nic = "emu0"});
  IpcSide side(peer, GetParam(), "emu0", {.require = Path::ipc});
  fail_nth_call(to_string(GetParam()), 0, EIO);
  Transfer put = side.put();
  const auto over = put.wait(within(10s));
  fail_nth_call(to_string(GetParam()), -1, 0);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::system) << describe(over.error());
  EXPECT_NE(over.error().number, 0) << "the number is the driver's: " << describe(over.error());
  EXPECT_EQ(side.endpoint.phase(), EndpointPhase::ready);
  EXPECT_EQ(peer.changed_bytes(), 0U);
  good(side.put().wait(within(10s)));
}

/// Only CUDA can open the handle of one GPU's memory at another GPU.
TEST_P(IpcChoice, AnotherGpusMemoryGoesByTheNicIfTheVendorCannotOpenIt) {
  const PeerProcess peer({.type = GetParam(), .nic = "emu0"});
  IpcSide side(peer, GetParam(), "emu0", kAsksFirst, "1");
  const auto sent = side.contents();
  Transfer put = side.put();
  good(put.wait(within(10s)));
  EXPECT_EQ(put.path(), GetParam() == MemoryType::rocm ? Path::nic_loopback : Path::ipc);
  side.expect_there(sent);
}

TEST_P(IpcChoice, ALimitOfUnlimitedMeansNoIpc) {
  ::setenv("HBMWIRE_IPC_FROM", "unlimited", 1);
  const PeerProcess peer({.type = GetParam(), .nic = "none"});
  IpcSide side(peer, GetParam(), "none");
  Transfer put = side.put();
  good(put.wait(within(10s)));
  EXPECT_EQ(put.path(), Path::staged);
  const TransferReport report = put.explain();
  ASSERT_TRUE(report.ipc.refusal);
  EXPECT_NE(describe(*report.ipc.refusal).find("HBMWIRE_IPC_FROM"), std::string::npos);
}

/// Both processes have both NICs; the second NIC imports no dma-bufs.
class IpcWithTwoNics : public ::testing::Test {
 protected:
  IpcWithTwoNics() { ::setenv("HBMWIRE_NICS", "emu0,emu1", 1); }

  ~IpcWithTwoNics() override { ::unsetenv("HBMWIRE_NICS"); }
};

TEST_F(IpcWithTwoNics, NeedsNoNicWhereIpcIsRequired) {
  const PathPolicy policy{.require = Path::ipc};
  const PeerProcess peer({.type = MemoryType::cuda, .paths = policy});
  IpcSide side(peer, MemoryType::cuda, "", policy);
  EXPECT_EQ(side.region.path(), Path::ipc);
  EXPECT_TRUE(side.region.nics().empty());
  const auto sent = side.contents();
  Transfer put = side.put();
  good(put.wait(within(10s)));
  EXPECT_EQ(put.path(), Path::ipc);
  side.expect_there(sent);
}

/// The two memories, and whether the peer's key can be revoked. If not, it is only given up.
struct Ended {
  IpcPair pair;
  bool revocable;
};

constexpr IpcPair kHostToCuda{MemoryType::host, MemoryType::cuda, "none"};
constexpr IpcPair kHostToRocm{MemoryType::host, MemoryType::rocm, "none"};

std::string name_of(const Ended& ended) {
  const std::string host = ended.pair.type == MemoryType::host ? "host_" : "";
  return host + std::string(to_string(ended.pair.peers)) +
         (ended.revocable ? "_revoked" : "_given_up");
}

/// The peer's engines take 150 ms for a copy.
class SlowIpcServer : public IpcServing<Ended> {
 protected:
  SlowIpcServer() {
    for (const char* const variable : kDelays) ::setenv(variable, "150000", 1);
  }

  /// Engines of this process take no extra time. Call it after the peer's process has begun.
  static void make_quick() {
    for (const char* const variable : kDelays) ::unsetenv(variable);
  }

  static constexpr std::array kDelays{"HBMWIRE_EMULATION_CUDA_DELAY_US",
                                      "HBMWIRE_EMULATION_ROCM_DELAY_US"};
};

INSTANTIATE_TEST_SUITE_P(Ends, SlowIpcServer,
                         ::testing::Values(Ended{kIpcPairs[0], true}, Ended{kIpcPairs[0], false},
                                           Ended{kIpcPairs[3], true}, Ended{kHostToCuda, true},
                                           Ended{kHostToCuda, false}, Ended{kHostToRocm, true}),
                         [](const auto& ended) { return name_of(ended.param); });

TEST_P(SlowIpcServer, KeepsAKeyUntilItsEngineIsDone) {
  const IpcPair& pair = GetParam().pair;
  PeerProcess::Options options = options_of(pair);
  options.key = {.revocable = GetParam().revocable};
  options.does = [](Inside& inside, std::int64_t) {
    const auto serves = [&] { return internals::look_at_endpoint(inside.worker).serves_copy; };
    const Deadline asked = Deadline::after(10s);
    while (!serves() && !asked.passed()) inside.worker.progress();
    return std::uint64_t{serves() && inside.listener.withdraw("target")};
  };
  const PeerProcess peer(options);
  make_quick();
  IpcSide side(peer, pair.type, pair.nic);
  const auto begun = std::chrono::steady_clock::now();
  Transfer put = side.put();
  std::uint64_t withdrawn = 0;
  beside(side.worker, [&] { withdrawn = peer.call(); });
  EXPECT_EQ(withdrawn, 1U);
  EXPECT_GE(std::chrono::steady_clock::now() - begun, 150ms);
  good(put.wait(within(10s)));
  EXPECT_EQ(put.path(), Path::ipc);
}

}  // namespace
}  // namespace hbmwire::test

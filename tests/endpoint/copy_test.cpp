// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "hbmwire/buffer.hpp"
#include "hbmwire/context.hpp"
#include "hbmwire/log.hpp"
#include "hbmwire/memory_key.hpp"
#include "hbmwire/settings.hpp"

#include "ends.hpp"
#include "internals.hpp"
#include "tests/library/emulated_hooks.hpp"

/// Both ends in one process, with copies by a device's engine. These copies keep the contract of
/// all transfers.
namespace hbmwire::test {
namespace {

constexpr std::uint64_t kBytes = (4U << 20U) + 4321;

Endpoint& a_of(Ends& ends) { return *ends.a; }

RemoteRegion remote_of(Ends& ends, const MemoryKey& key) {
  return value(a_of(ends).remote(value(RemoteKey::unpack(key.bytes()))));
}

void expect_idle(Ends& ends) {
  EXPECT_EQ(internals::look_at(ends.a_worker).staged, 0U);
  EXPECT_EQ(internals::look_at(ends.b_worker).staged, 0U);
}

/// Expects that an engine carries a put of the whole memory.
void expect_copied(Ends& ends, Memory& here, Memory& there) {
  here.fill(1);
  there.fill(2);
  const MemoryKey key = value(MemoryKey::pack(there.region()));
  const RemoteRegion remote = remote_of(ends, key);
  Transfer put = value(a_of(ends).put(here.all(), remote.slice(0, kBytes)));
  finish(ends, put);
  EXPECT_EQ(put.path(), Path::copy);
  EXPECT_TRUE(same_bytes(there.contents(), pattern(kBytes, 1)));
}

class Copied : public ::testing::TestWithParam<MemoryType> {};

INSTANTIATE_TEST_SUITE_P(Devices, Copied,
                         ::testing::Values(MemoryType::gaudi, MemoryType::cuda, MemoryType::rocm),
                         [](const auto& type) { return std::string(to_string(type.param)); });

TEST_P(Copied, BytesOfEverySizeBothWays) {
  Ends ends;

  struct Pair {
    MemoryType here;
    MemoryType there;
  };

  for (const Pair pair : {Pair{MemoryType::host, GetParam()}, Pair{GetParam(), MemoryType::host},
                          Pair{GetParam(), GetParam()}}) {
    Memory here(ends.context, pair.here, kBytes);
    Memory there(ends.context, pair.there, kBytes);
    const MemoryKey key = value(MemoryKey::pack(there.region()));
    const RemoteRegion remote = remote_of(ends, key);
    for (const std::uint64_t length :
         {std::uint64_t{1}, std::uint64_t{4095}, std::uint64_t{65537}, kBytes - 3}) {
      here.fill(1);
      there.fill(2);
      Transfer put = value(a_of(ends).put(here.slice(1, length), remote.slice(2, length)));
      finish(ends, put);
      EXPECT_EQ(put.path(), Path::copy);
      EXPECT_EQ(put.bytes(), length);
      auto expected = pattern(kBytes, 2);
      // The put moved bytes of pattern 1 from offset 1 to offset 2.
      overlay(expected, 2, 1, 1, length);
      EXPECT_TRUE(same_bytes(there.contents(), expected)) << length;
      there.fill(3);
      Transfer get = value(a_of(ends).get(here.slice(3, length), remote.slice(0, length)));
      finish(ends, get);
      EXPECT_EQ(get.path(), Path::copy);
      expected = pattern(kBytes, 1);
      // The get moved bytes of pattern 3 from offset 0 to offset 3.
      overlay(expected, 3, 0, 3, length);
      EXPECT_TRUE(same_bytes(here.contents(), expected)) << length;
    }
    expect_idle(ends);
  }
}

TEST_P(Copied, ExplainNamesTheCarrierAndTheReasons) {
  Ends ends;
  Memory here(ends.context, GetParam(), 4096);
  Memory there(ends.context, GetParam(), 4096);
  Memory host(ends.context, MemoryType::host, 4096);
  const MemoryKey key = value(MemoryKey::pack(there.region()));
  const MemoryKey host_key = value(MemoryKey::pack(host.region()));
  const RemoteRegion remote = remote_of(ends, key);
  const RemoteRegion of_host = remote_of(ends, host_key);
  Transfer put = value(a_of(ends).put(here.all(), remote.slice(0, 4096)));
  finish(ends, put);
  EXPECT_TRUE(put.explain().copy.taken);
  EXPECT_NE(describe(put.explain()).find("copy engine"), std::string::npos)
      << describe(put.explain());
  const auto reason = [&](Transfer& transfer) {
    finish(ends, transfer);
    const PathTried copy = transfer.explain().copy;
    EXPECT_FALSE(copy.taken);
    return copy.refusal ? std::string(copy.refusal->call) : "";
  };
  // Between host memories the NIC carries puts, without asking for an engine.
  EXPECT_FALSE(internals::look_at(of_host).by_engine);
  Transfer plain = value(a_of(ends).put(host.all(), of_host.slice(0, 4096)));
  EXPECT_NE(reason(plain).find("as good"), std::string::npos);
  EXPECT_EQ(plain.path(), Path::host);
  const std::vector<TransferPart> parts{{here.all(), remote.slice(0, 4096)}};
  PreparedTransfer list = value(a_of(ends).prepare_put(parts));
  Transfer listed = value(list.post());
  EXPECT_NE(reason(listed).find("single puts"), std::string::npos);
  EXPECT_EQ(listed.path(), Path::nic_loopback);
  const auto other = GetParam() == MemoryType::rocm ? MemoryType::cuda : MemoryType::rocm;
  Memory another(ends.context, other, 4096);
  Transfer across = value(a_of(ends).put(another.all(), remote.slice(0, 4096)));
  EXPECT_NE(reason(across).find("no engine"), std::string::npos);
  EXPECT_EQ(across.path(), Path::nic_loopback);
}

TEST(CopiedBetweenGpus, MemoryOfTwoCudaGpusIsCopied) {
  Ends ends;
  const auto memory_of = [&](const char* gpu) {
    return value(ends.context.register_memory(
        value(ends.context.allocate(MemoryType::cuda, kBytes, {.device = gpu})), kAll));
  };
  const Region here = memory_of("0");
  const Region there = memory_of("1");
  Buffer in = value(Buffer::create(here));
  Buffer out = value(Buffer::create(there));
  const auto bytes = pattern(kBytes, 1);
  good(in.write(0, bytes, within(20s)));
  const MemoryKey key = value(MemoryKey::pack(there));
  const RemoteRegion remote = remote_of(ends, key);
  Transfer put = value(a_of(ends).put(here.slice(0, kBytes), remote.slice(0, kBytes)));
  finish(ends, put);
  EXPECT_EQ(put.path(), Path::copy);
  std::vector<std::byte> seen(kBytes);
  good(out.read(0, seen, within(20s)));
  EXPECT_TRUE(seen == bytes);
}

TEST(NotCopiedBetweenGpus, MemoryOfTwoRocmGpusGoesByTheNic) {
  Ends ends;
  const auto memory_of = [&](const char* gpu) {
    return value(ends.context.register_memory(
        value(ends.context.allocate(MemoryType::rocm, 4096, {.device = gpu})), kAll));
  };
  const Region here = memory_of("0");
  const Region there = memory_of("1");
  const Region same = memory_of("0");
  const MemoryKey key = value(MemoryKey::pack(there));
  const MemoryKey key_of_same = value(MemoryKey::pack(same));
  const RemoteRegion remote = remote_of(ends, key);
  const RemoteRegion of_same = remote_of(ends, key_of_same);
  Transfer put = value(a_of(ends).put(here.slice(0, 4096), remote.slice(0, 4096)));
  finish(ends, put);
  EXPECT_EQ(put.path(), Path::nic_loopback);
  Transfer within_one = value(a_of(ends).put(here.slice(0, 4096), of_same.slice(0, 4096)));
  finish(ends, within_one);
  EXPECT_EQ(within_one.path(), Path::copy);
}

/// Engine and NIC alternately write to the same place and read it, without waiting in between.
TEST_P(Copied, ACopyKeepsItsOrderWithTransfersOfTheNic) {
  Ends ends;
  Memory ones(ends.context, MemoryType::host, kBytes);
  Memory twos(ends.context, MemoryType::host, kBytes);
  Memory seen(ends.context, MemoryType::host, 3 * kBytes);
  Memory there(ends.context, GetParam(), kBytes);
  ones.fill(1);
  twos.fill(2);
  there.fill(3);
  const MemoryKey key = value(MemoryKey::pack(there.region()));
  const RemoteRegion remote = remote_of(ends, key);
  const RemoteSlice all = remote.slice(0, kBytes);
  const std::vector<TransferPart> parts{{twos.all(), all}};
  PreparedTransfer by_nic = value(a_of(ends).prepare_put(parts));
  // Memory of another vendor, so no engine copies between it and `there`.
  const auto other = GetParam() == MemoryType::rocm ? MemoryType::cuda : MemoryType::rocm;
  Memory read_by_nic(ends.context, other, kBytes);
  std::vector<Transfer> transfers;
  const auto get = [&](std::uint64_t part) {
    transfers.push_back(value(a_of(ends).get(seen.slice(part * kBytes, kBytes), all)));
  };
  for (int round = 0; round < 3; ++round) {
    there.fill(3);
    get(0);
    transfers.push_back(value(by_nic.post()));  // the NIC's, between two gets of the engine
    get(1);
    transfers.push_back(value(a_of(ends).get(read_by_nic.all(), all)));
    transfers.push_back(value(a_of(ends).put(ones.all(), all)));
    get(2);
    transfers.push_back(value(a_of(ends).flush()));
    for (std::size_t last = transfers.size(); last-- != 0;) {
      finish(ends, transfers[last]);
      // When a transfer has ended, all earlier ones have, too. Only the NIC's get into a device
      // (number 3), which is flushed before it ends, may end later.
      for (const Transfer& before : std::span(transfers).first(last))
        EXPECT_TRUE(before.done() || &before == &transfers[3]);
    }
    EXPECT_EQ(transfers[0].path(), Path::copy);
    EXPECT_EQ(transfers[1].path(), Path::nic_loopback);
    EXPECT_EQ(transfers[3].path(), Path::nic_loopback);
    EXPECT_EQ(transfers[4].path(), Path::copy);
    transfers.clear();
    const auto bytes = seen.contents();
    EXPECT_TRUE(same_bytes(read_by_nic.contents(), pattern(kBytes, 2)));
    const std::array<unsigned, 3> seeds{3, 2, 1};
    for (const unsigned part : {0U, 1U, 2U}) {
      const auto expected = pattern(kBytes, seeds.at(part));
      EXPECT_EQ(std::memcmp(bytes.data() + part * kBytes, expected.data(), kBytes), 0) << part;
    }
    EXPECT_TRUE(same_bytes(there.contents(), pattern(kBytes, 1)));
  }
  expect_idle(ends);
}

TEST_P(Copied, AnImmediateComesBehindTheBytes) {
  Ends ends;
  Memory here(ends.context, MemoryType::host, kBytes);
  Memory there(ends.context, GetParam(), kBytes);
  const MemoryKey key = value(MemoryKey::pack(there.region()));
  const RemoteRegion remote = remote_of(ends, key);
  for (unsigned round = 1; round < 4; ++round) {
    here.fill(round);
    Transfer told = value(ends.b->receive_immediate(there.all()));
    Transfer put = value(a_of(ends).put(here.all(), remote.slice(0, kBytes),
                                        {.level = CompletionLevel::visible, .immediate = round}));
    finish(ends, told);
    EXPECT_EQ(told.value(), round);
    EXPECT_TRUE(same_bytes(there.contents(), pattern(kBytes, round)));
    finish(ends, put);
    EXPECT_EQ(put.path(), Path::copy);
  }
}

TEST_P(Copied, NothingChangesAfterTheKeyWasRevoked) {
  Ends ends;
  Memory here(ends.context, MemoryType::host, kBytes);
  Memory there(ends.context, GetParam(), kBytes);
  here.fill(1);
  for (const bool begun : {true, false}) {
    there.fill(2);
    MemoryKey key = value(MemoryKey::pack(there.region(), {.revocable = true}));
    const RemoteRegion remote = remote_of(ends, key);
    Transfer first = value(a_of(ends).put(here.slice(0, kBytes / 2), remote.slice(0, kBytes / 2)));
    Transfer behind =
        value(a_of(ends).put(here.slice(kBytes / 2, 99), remote.slice(kBytes / 2, 99)));
    if (begun) finish(ends, first);
    good(key.revoke());  // called by the thread that would have to drive the copy
    const auto bytes = there.contents();
    ends.drive([&] { return first.done() && behind.done(); });
    EXPECT_TRUE(same_bytes(there.contents(), bytes));
    for (Transfer* const transfer : {&first, &behind}) {
      const auto over = transfer->poll();
      if (over) continue;
      EXPECT_EQ(over.error().code, Errc::permission_denied) << describe(over.error());
      EXPECT_TRUE(transfer->settled());
    }
    EXPECT_TRUE(first.poll()) << "revoke() waited for the copy that the engine had begun";
    EXPECT_EQ(ends.a->phase(), EndpointPhase::ready) << "the second put fails alone";
    expect_idle(ends);
  }
}

TEST_P(Copied, AnEngineThatFailsEndsOneTransfer) {
  Ends ends;
  Memory here(ends.context, MemoryType::host, kBytes);
  Memory there(ends.context, GetParam(), kBytes);
  Memory same(ends.context, GetParam(), kBytes);
  const MemoryKey key = value(MemoryKey::pack(there.region()));
  const RemoteRegion remote = remote_of(ends, key);
  const RemoteSlice all = remote.slice(0, kBytes);
  const std::string vendor(to_string(GetParam()));
  for (const Slice& from : {here.all(), same.all()}) {
    unsigned failed = 0;
    // The engine is asked many times whether it is done; testing some of these calls is enough.
    for (long nth = 0; nth < 40; ++nth) {
      fail_nth_call(vendor, nth, EIO);
      Transfer under_way = value(a_of(ends).put(from, all));
      ends.drive([&] { return under_way.done(); });
      // Switches the fault off, and tells how many calls were made.
      const long calls = fail_nth_call(vendor, -1, 0);
      ASSERT_EQ(ends.a->phase(), EndpointPhase::ready) << nth;
      expect_idle(ends);
      const auto over = under_way.poll();
      if (!over) {
        ++failed;
        EXPECT_EQ(over.error().stage, Stage::copy) << describe(over.error());
        EXPECT_TRUE(under_way.settled());
      }
      if (calls <= nth) break;
    }
    EXPECT_NE(failed, 0U);
    here.fill(1);
    there.fill(2);
    Transfer put = value(a_of(ends).put(here.all(), all));
    finish(ends, put);
    EXPECT_TRUE(same_bytes(there.contents(), pattern(kBytes, 1)));
  }
}

TEST_P(Copied, ACancelledCopyChangesNothingAfterwards) {
  for (const int steps : {0, 1, 5, 50}) {
    Ends ends;
    Memory here(ends.context, MemoryType::host, kBytes);
    Memory there(ends.context, GetParam(), kBytes);
    here.fill(1);
    there.fill(2);
    const MemoryKey key = value(MemoryKey::pack(there.region()));
    const RemoteRegion remote = remote_of(ends, key);
    Transfer put = value(a_of(ends).put(here.all(), remote.slice(0, kBytes)));
    Transfer behind = value(a_of(ends).put(here.all(), remote.slice(0, kBytes)));
    for (int i = 0; i < steps; ++i) ends.a_worker.progress();
    beside(ends.b_worker, [&] { good(behind.cancel()); });
    const auto bytes = there.contents();
    ends.drive([&] { return put.done() && behind.done(); });
    EXPECT_TRUE(behind.settled());
    for (int i = 0; i < 100; ++i) ends.a_worker.progress();
    EXPECT_TRUE(same_bytes(there.contents(), bytes));
    expect_idle(ends);
  }
}

TEST_P(Copied, CopiesEndWithTheirEndpointAndTheirWorker) {
  for (const bool whole_worker : {false, true}) {
    std::optional<Ends> ends(std::in_place);
    Memory here(ends->context, MemoryType::host, kBytes);
    Memory there(ends->context, GetParam(), kBytes);
    const MemoryKey key = value(MemoryKey::pack(there.region()));
    const RemoteRegion remote = remote_of(*ends, key);
    Transfer put = value(a_of(*ends).put(here.all(), remote.slice(0, kBytes)));
    Transfer get = value(a_of(*ends).get(here.all(), remote.slice(0, kBytes)));
    ends->a.reset();
    if (whole_worker) {
      ends.reset();
    } else {
      ends->drive([&] { return put.done() && get.done(); });
      expect_idle(*ends);
    }
    EXPECT_TRUE(put.done());
    EXPECT_TRUE(get.done());
  }
}

TEST_P(Copied, PoliciesAreKept) {
  const auto path_of = [&](const ContextOptions& of_context, const EndpointOptions& of_endpoint) {
    Ends ends(of_endpoint, {}, of_context);
    Memory here(ends.context, GetParam(), 4096);
    Memory there(ends.context, GetParam(), 4096);
    here.fill(1);
    const MemoryKey key = value(MemoryKey::pack(there.region()));
    const RemoteRegion remote = remote_of(ends, key);
    Transfer put = value(a_of(ends).put(here.all(), remote.slice(0, 4096)));
    finish(ends, put);
    EXPECT_TRUE(same_bytes(there.contents(), pattern(4096, 1)));
    return put.path();
  };
  const auto requires_path = [](Path path) {
    ContextOptions options;
    options.paths.require = path;
    return options;
  };
  EXPECT_EQ(path_of({}, {}), Path::copy);
  EXPECT_EQ(path_of(requires_path(Path::zero_copy), {}), Path::nic_loopback);
  EXPECT_EQ(path_of({}, {.paths = {.require = Path::zero_copy}}), Path::nic_loopback);
  EXPECT_EQ(path_of({}, {.paths = {.allow = {Path::host, Path::zero_copy}}}), Path::nic_loopback);
  EXPECT_EQ(path_of(requires_path(Path::copy), {}), Path::copy);
  EXPECT_EQ(path_of({}, {.paths = {.require = Path::copy}}), Path::copy);
}

/// An operation without bytes matters only for the order, which the NIC keeps.
TEST_P(Copied, OperationsOfNoBytesAreOverWhateverThePolicy) {
  const auto expect_over = [](const ContextOptions& of_context,
                              const EndpointOptions& of_endpoint) {
    Ends ends(of_endpoint, {}, of_context);
    Memory here(ends.context, GetParam(), 4096);
    Memory there(ends.context, GetParam(), 4096);
    there.fill(1);
    const MemoryKey key = value(MemoryKey::pack(there.region()));
    const RemoteRegion remote = remote_of(ends, key);
    for (const CompletionLevel level : {CompletionLevel::arrived, CompletionLevel::visible}) {
      Transfer put = value(
          a_of(ends).put(here.slice(0, 0), remote.slice(0, 0), {.level = level, .immediate = 5}));
      Transfer told = value(ends.b->receive_immediate());
      finish(ends, put);
      finish(ends, told);
      EXPECT_EQ(told.value(), 5U);
      EXPECT_EQ(put.bytes(), 0U);
    }
    Transfer get = value(a_of(ends).get(here.slice(0, 0), remote.slice(0, 0)));
    finish(ends, get);
    Transfer put = value(a_of(ends).put(here.all(), remote.slice(0, 4096)));
    finish(ends, put);
    EXPECT_EQ(put.path(), Path::copy);
    expect_idle(ends);
  };
  ContextOptions only;
  only.paths.require = Path::copy;
  expect_over({}, {});
  expect_over(only, {});
  expect_over({}, {.paths = {.require = Path::copy}});
  expect_over({}, {.paths = {.allow = {Path::copy, Path::host}}});
}

TEST_P(Copied, WhereOnlyCopiesAreAllowedTheNicIsRefused) {
  ContextOptions only;
  only.paths.require = Path::copy;
  Ends ends({}, {}, only);
  Memory here(ends.context, GetParam(), 4096);
  EXPECT_EQ(here.region().path(), Path::copy);
  EXPECT_TRUE(here.region().nics().empty()) << "no NIC gets at it";
  Memory there(ends.context, GetParam(), 4096);
  const MemoryKey key = value(MemoryKey::pack(there.region()));
  EXPECT_TRUE(key.info().nics.empty());
  const RemoteRegion remote = remote_of(ends, key);
  const std::vector<TransferPart> parts{{here.all(), remote.slice(0, 4096)}};
  EXPECT_FALSE(a_of(ends).prepare_put(parts));
  const auto expect_excluded = [](const auto& refused) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::permission_denied) << describe(refused.error());
    EXPECT_EQ(refused.error().hint, Hint::path_policy) << describe(refused.error());
  };
  expect_excluded(a_of(ends).send(here.all()));
  expect_excluded(a_of(ends).receive(here.all()));
  const auto other = GetParam() == MemoryType::rocm ? MemoryType::cuda : MemoryType::rocm;
  Memory another(ends.context, other, 4096);
  const auto across = a_of(ends).put(another.all(), remote.slice(0, 4096));
  ASSERT_FALSE(across);
  EXPECT_EQ(across.error().stage, Stage::post) << describe(across.error());
  expect_excluded(across);
  expect_excluded(a_of(ends).get(another.all(), remote.slice(0, 4096)));
  EXPECT_EQ(ends.a->phase(), EndpointPhase::ready);
  const auto atomic = a_of(ends).fetch_add(remote.slice(0, 8), 1);
  ASSERT_FALSE(atomic);
}

/// As the test before, with two NICs, of which emu1 reaches no device, and with large transfers.
TEST_P(Copied, WhereOnlyCopiesAreAllowedNoneOfTwoNicsIsNeeded) {
  Ends ends({}, {}, {.memory = {}, .nics = {"emu0", "emu1"}, .paths = {.require = Path::copy}});
  Memory here(ends.context, GetParam(), kBytes);
  Memory there(ends.context, GetParam(), kBytes);
  EXPECT_EQ(there.region().path(), Path::copy);
  EXPECT_TRUE(there.region().nics().empty());
  expect_copied(ends, here, there);
}

/// emu1 imports no dma-bufs, so it reaches no device memory.
TEST_P(Copied, CopiesNeedNoNicThatReachesTheMemory) {
  set_log_sink([](LogLevel, std::string_view) {});
  ContextOptions plain;
  plain.nics = {"emu1"};
  Ends ends({}, {}, plain);
  Memory here(ends.context, GetParam(), kBytes);
  Memory there(ends.context, GetParam(), kBytes);
  EXPECT_EQ(there.region().path(), Path::staged);
  expect_copied(ends, here, there);
  set_log_sink({});
}

TEST_P(Copied, CopiesChangeNoMemoryThatIsNotForWriting) {
  Ends ends;
  Memory there(ends.context, GetParam(), 4096);
  const Region here = value(ends.context.register_memory(
      value(ends.context.allocate(MemoryType::host, 4096)), Access::none));
  const MemoryKey reading = value(MemoryKey::pack(there.region(), {.access = Access::remote_read}));
  const MemoryKey writing =
      value(MemoryKey::pack(there.region(), {.access = Access::remote_write}));
  const RemoteRegion readable = remote_of(ends, reading);
  const RemoteRegion writable = remote_of(ends, writing);
  const auto expect_refused = [](const Result<Transfer>& started) {
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().code, Errc::permission_denied) << describe(started.error());
  };
  expect_refused(a_of(ends).get(here.slice(0, 64), readable.slice(0, 64)));
  expect_refused(a_of(ends).put(here.slice(0, 64), readable.slice(0, 64)));
  expect_refused(a_of(ends).get(here.slice(0, 64), writable.slice(0, 64)));
  Transfer put = value(a_of(ends).put(here.slice(0, 64), writable.slice(0, 64)));
  finish(ends, put);
  EXPECT_EQ(put.path(), Path::copy);
}

/// A destroyed key names no memory any more, but the NIC still reaches the memory by its rkey.
TEST_P(Copied, APutWithoutItsKeyGoesByTheNic) {
  Ends ends;
  Memory here(ends.context, GetParam(), 4096);
  Memory there(ends.context, GetParam(), 4096);
  here.fill(1);
  std::optional<MemoryKey> key = value(MemoryKey::pack(there.region()));
  const RemoteRegion remote = remote_of(ends, *key);
  key.reset();
  Transfer put = value(a_of(ends).put(here.all(), remote.slice(0, 4096)));
  finish(ends, put);
  EXPECT_EQ(put.path(), Path::nic_loopback);
  EXPECT_TRUE(same_bytes(there.contents(), pattern(4096, 1)));
}

/// CUDA's engine is slow here.
class CopiedSlowly : public ::testing::Test {
 protected:
  static constexpr auto kDelay = 700ms;

  CopiedSlowly() { ::setenv("HBMWIRE_EMULATION_CUDA_DELAY_US", "700000", 1); }

  ~CopiedSlowly() override { ::unsetenv("HBMWIRE_EMULATION_CUDA_DELAY_US"); }

  Ends ends;
  Memory here{ends.context, MemoryType::host, kBytes};
  Memory there{ends.context, MemoryType::cuda, kBytes};
};

TEST_F(CopiedSlowly, TheWorkerMayNotSleepUntilTheCopyIsOver) {
  const MemoryKey key = value(MemoryKey::pack(there.region()));
  const RemoteRegion remote = remote_of(ends, key);
  Transfer put = value(a_of(ends).put(here.all(), remote.slice(0, kBytes)));
  bool may_sleep = false;
  unsigned looks = 0;
  for (; !put.done() && !may_sleep; ++looks) may_sleep = value(ends.a_worker.arm());
  EXPECT_TRUE(put.done()) << "the end of the copy would wake nothing";
  EXPECT_GT(looks, 2U);
  EXPECT_EQ(put.path(), Path::copy);
}

TEST_F(CopiedSlowly, ACancelledCopyEndsItsEndpoint) {
  const MemoryKey key = value(MemoryKey::pack(there.region()));
  const RemoteRegion remote = remote_of(ends, key);
  const auto begun = std::chrono::steady_clock::now();
  Transfer put = value(a_of(ends).put(here.all(), remote.slice(0, kBytes)));
  beside(ends.b_worker, [&] { good(put.cancel()); });
  EXPECT_GE(std::chrono::steady_clock::now() - begun, kDelay) << "cancel() waits for the engine";
  EXPECT_EQ(ends.a->phase(), EndpointPhase::failed);
  ends.drive([&] { return ends.b->phase() == EndpointPhase::failed; });
}

/// The expiry itself waits for the engine, although no thread calls progress().
TEST_F(CopiedSlowly, AnExpiringKeyWaitsForTheCopy) {
  const MemoryKey key = value(MemoryKey::pack(there.region(), {.expires_after = kDelay / 2}));
  const RemoteRegion remote = remote_of(ends, key);
  const auto begun = std::chrono::steady_clock::now();
  Transfer put = value(a_of(ends).put(here.all(), remote.slice(0, kBytes)));
  const Deadline patience = Deadline::after(10s);
  while (key.valid() && !patience.passed()) std::this_thread::sleep_for(1ms);
  EXPECT_FALSE(key.valid());
  EXPECT_GE(std::chrono::steady_clock::now() - begun, kDelay);
  finish(ends, put);
}

}  // namespace
}  // namespace hbmwire::test

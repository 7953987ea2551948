// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hbmwire/log.hpp"
#include "hbmwire/memory_key.hpp"
#include "hbmwire/settings.hpp"

#include "staged_ends.hpp"

/// Memory of the peer that its NIC does not reach (emu1 imports no dma-bufs), so its process
/// moves the bytes. The contract is the same as for other memory.
namespace hbmwire::test {
namespace {

constexpr Access kClosed = Access::local_write;
constexpr Access kRemote = Access::remote_write | Access::remote_read;

struct Pair {
  const char* name;
  const char* nic;  // NIC of this end, which starts the transfers
  MemoryType here;
  Access access;  // access to this end's memory
  MemoryType there;
  bool mapped = false;  // the peer has mapped the pieces of this end
};

class Served : public StagedEnds<Pair> {
 protected:
  Served() : StagedEnds(GetParam().nic, "emu1") {}

  void SetUp() override {
    StagedEnds::SetUp();
    keep_apart();
    source_.emplace(*here_, GetParam().here, kBytes, GetParam().access);
    target_.emplace(*there_, GetParam().there, kBytes, kAll);
  }

  void TearDown() override {
    key_.reset();
    source_.reset();
    target_.reset();
    StagedEnds::TearDown();
  }

  [[nodiscard]] RemoteRegion remote(const MemoryKeyOptions& options = {}) {
    key_.emplace(value(MemoryKey::pack(target_->region(), options)));
    return value(a_->remote(value(RemoteKey::unpack(key_->bytes()))));
  }

  [[nodiscard]] Result<Transfer> start(bool gets, const RemoteRegion& there,
                                       std::uint64_t size = kBytes) {
    return gets ? a_->get(source_->slice(0, size), there.slice(0, size))
                : a_->put(source_->slice(0, size), there.slice(0, size));
  }

  /// Connects a new endpoint after one that ended.
  void begin_anew() {
    key_.reset();
    end();
    begin();
    keep_apart();
  }

  /// Acts as on two nodes, where the peer cannot map the pieces, unless the parameter wants them
  /// mapped.
  void keep_apart() {
    if (!GetParam().mapped) internals::keep_pieces_apart(*near_);
  }

  void expect_all_idle() {
    if (near_) expect_idle(*near_);
    if (far_) expect_idle(*far_);
  }

  std::optional<Memory> source_;
  std::optional<Memory> target_;
  std::optional<MemoryKey> key_;
};

INSTANTIATE_TEST_SUITE_P(
    Pairs, Served,
    ::testing::Values(
        Pair{"OpenHostToGaudi", "emu0", MemoryType::host, kAll, MemoryType::gaudi},
        Pair{"ClosedHostToCuda", "emu0", MemoryType::host, kClosed, MemoryType::cuda},
        Pair{"OpenRocmToCuda", "emu0", MemoryType::rocm, kAll, MemoryType::cuda},
        Pair{"ClosedCudaToRocm", "emu0", MemoryType::cuda, kClosed, MemoryType::rocm},
        Pair{"StagedCudaToRocm", "emu1", MemoryType::cuda, kAll, MemoryType::rocm},
        Pair{"StagedGaudiToCuda", "emu1", MemoryType::gaudi, kClosed, MemoryType::cuda},
        Pair{"MappedCudaToRocm", "emu1", MemoryType::cuda, kAll, MemoryType::rocm, true},
        Pair{"MappedGaudiToCuda", "emu1", MemoryType::gaudi, kClosed, MemoryType::cuda, true}),
    [](const auto& pair) { return std::string(pair.param.name); });

TEST_P(Served, PutsAndGetsOfAnySizeArriveWhole) {
  const RemoteRegion there = remote();
  EXPECT_EQ(there.path(), Path::staged);
  unsigned seed = 0;
  for (const std::uint64_t size : {0UL, 1UL, 4095UL, kPiece, kPiece + 1, kBytes - 7}) {
    for (const bool gets : {false, true}) {
      source_->fill(++seed);
      target_->fill(++seed);
      auto here = pattern(kBytes, seed - 1);
      auto other = pattern(kBytes, seed);
      Transfer transfer = value(gets ? a_->get(source_->slice(7, size), there.slice(3, size))
                                     : a_->put(source_->slice(7, size), there.slice(3, size),
                                               {.level = CompletionLevel::visible}));
      finish(transfer);
      if (gets) {
        std::copy_n(other.begin() + 3, size, here.begin() + 7);
      } else {
        std::copy_n(here.begin() + 7, size, other.begin() + 3);
      }
      EXPECT_TRUE(same_bytes(source_->contents(), here)) << size << (gets ? " get" : " put");
      EXPECT_TRUE(same_bytes(target_->contents(), other)) << size << (gets ? " get" : " put");
      EXPECT_EQ(transfer.bytes(), size);
      EXPECT_EQ(transfer.path(), Path::staged);
      const TransferReport report = transfer.explain();
      EXPECT_EQ(report.remote_path, Path::staged);
      EXPECT_EQ(report.protocol, size == 0 ? Protocol::direct : Protocol::proxied);
    }
  }
  expect_all_idle();
}

TEST_P(Served, TransfersWaitForThePeersProcess) {
  const RemoteRegion there = remote();
  source_->fill(1);
  target_->fill(2);
  for (const bool gets : {false, true}) {
    Transfer transfer = value(start(gets, there));
    for (int i = 0; i < 5000; ++i) near_->progress();
    EXPECT_FALSE(transfer.done());
    finish(transfer);
  }
  EXPECT_TRUE(same_bytes(target_->contents(), pattern(kBytes, 1)));
  EXPECT_TRUE(same_bytes(source_->contents(), pattern(kBytes, 1)));
}

TEST_P(Served, TransfersArriveInOrder) {
  const RemoteRegion there = remote();
  Memory words(*here_, MemoryType::host, 64);
  Memory inbox(*there_, MemoryType::host, 64);
  const MemoryKey key_of_inbox = value(MemoryKey::pack(inbox.region()));
  const RemoteRegion at_inbox = value(a_->remote(value(RemoteKey::unpack(key_of_inbox.bytes()))));
  for (unsigned round = 0; round < 4; ++round) {
    source_->fill(10 + round);
    target_->fill(100 + round);
    words.fill(round);
    Transfer receive = value(b_->receive(inbox.slice(32, 8)));
    Transfer immediate = value(b_->receive_immediate());
    std::vector<Transfer> all;
    all.push_back(value(start(false, there)));
    all.push_back(
        value(a_->put(source_->slice(0, 100), there.slice(kPiece, 100), {.immediate = round})));
    all.push_back(value(a_->get(source_->slice(0, 50), there.slice(kPiece, 50))));
    all.push_back(value(a_->put(words.slice(0, 16), at_inbox.slice(0, 16))));
    all.push_back(value(a_->send(words.slice(0, 8))));
    finish(receive);
    auto expected = pattern(kBytes, 10 + round);
    std::copy_n(expected.begin(), 100, expected.begin() + kPiece);
    EXPECT_TRUE(same_bytes(target_->contents(), expected)) << round;
    const auto came = inbox.contents();
    EXPECT_TRUE(std::equal(came.begin(), came.begin() + 16, words.contents().begin()));
    finish(immediate);
    EXPECT_EQ(immediate.value(), round);
    EXPECT_EQ(immediate.bytes(), 0U)
        << "the immediate comes without bytes, after those that the process has moved";
    for (Transfer& transfer : all) finish(transfer);
  }
  expect_all_idle();
}

TEST_P(Served, AtomicsAndListsAreRefused) {
  const RemoteRegion there = remote();
  const auto atomic = a_->fetch_add(there.slice(0, 8), 1);
  ASSERT_FALSE(atomic);
  EXPECT_EQ(atomic.error().code, Errc::not_supported) << describe(atomic.error());
  const TransferPart part{.local = source_->slice(0, 64), .remote = there.slice(0, 64)};
  for (const bool gets : {false, true}) {
    const auto list = gets ? a_->prepare_get({&part, 1}) : a_->prepare_put({&part, 1});
    ASSERT_FALSE(list);
    EXPECT_EQ(list.error().code, Errc::not_supported) << describe(list.error());
  }
}

TEST_P(Served, ARegionOfAnotherConnectionIsRefused) {
  const RemoteRegion there = remote();
  const auto [other, accepted] = connect({});
  // Uses the first connection's region with the second one's endpoint, and the other way round.
  for (const RemoteRegion& region :
       {there, value(other.remote(value(RemoteKey::unpack(key_->bytes()))))}) {
    Endpoint& wrong = internals::look_at(region).connection == internals::look_at(there).connection
                          ? const_cast<Endpoint&>(other)
                          : *a_;
    const auto put = wrong.put(source_->slice(0, 8), region.slice(0, 8));
    ASSERT_FALSE(put);
    EXPECT_EQ(put.error().hint, Hint::remote_region_stale) << describe(put.error());
  }
}

/// The peer's process refuses what a NIC would refuse, and the connection ends as with a NIC.
TEST_P(Served, AccessBeyondTheKeyEndsTheConnection) {
  enum class Wrong : std::uint8_t { access, token, begin, end, wraps };
  // A put or get of several pieces, all of which are in one question.
  const bool in_parts = source_->region().path() == Path::staged;
  const std::uint64_t length = in_parts ? 8192 : 3 * kPiece;
  target_->fill(2);
  for (const bool gets : {false, true}) {
    for (const Wrong wrong :
         {Wrong::access, Wrong::token, Wrong::begin, Wrong::end, Wrong::wraps}) {
      const Access other = gets ? Access::remote_write : Access::remote_read;
      const Access open = wrong == Wrong::access ? other : kRemote;
      RemoteRegion there = remote({.offset_bytes = 4096, .length_bytes = length, .access = open});
      auto forged = internals::look_at(there);
      forged.access = kAll;
      if (wrong == Wrong::token) forged.token ^= 1;
      if (wrong == Wrong::begin) forged.address -= 1;
      if (wrong == Wrong::end) forged.length_bytes += 1;
      if (wrong == Wrong::wraps) forged.address = ~std::uint64_t{0} - length;
      internals::set(there, forged);
      Transfer transfer = value(start(gets, there, there.length_bytes()));
      const Error error = expect_failure(transfer);
      EXPECT_EQ(error.code, Errc::permission_denied) << describe(error);
      EXPECT_TRUE(transfer.settled());
      drive([&] { return b_->phase() == EndpointPhase::failed; });
      EXPECT_EQ(b_->error()->code, Errc::peer_failed);
      EXPECT_TRUE(same_bytes(target_->contents(), pattern(kBytes, 2)));
      expect_all_idle();
      transfer.reset();
      begin_anew();
    }
  }
}

TEST_P(Served, NothingMovesAfterAKeyWasRevoked) {
  for (const int progress : {0, 3, 8, 20}) {
    for (const bool gets : {false, true}) {
      source_->fill(1);
      target_->fill(2);
      const RemoteRegion there = remote({.revocable = true});
      Transfer transfer = value(start(gets, there));
      for (int i = 0; i < progress; ++i) {
        near_->progress();
        far_->progress();
      }
      good(key_->revoke());
      const auto at_revocation = target_->contents();
      drive([&] { return transfer.done(); });
      EXPECT_TRUE(same_bytes(target_->contents(), at_revocation));
      if (const auto over = transfer.poll(); !over) {
        EXPECT_EQ(over.error().code, Errc::permission_denied) << describe(over.error());
        drive([&] { return b_->phase() == EndpointPhase::failed; });
        expect_all_idle();
      }
      transfer.reset();
      begin_anew();
    }
  }
}

TEST_P(Served, NothingMovesAfterACancelledTransfersReport) {
  for (const int progress : {0, 1, 2, 5, 11, 30}) {
    const RemoteRegion there = remote();
    source_->fill(1);
    target_->fill(2);
    Transfer transfer = value(start(progress % 2 != 0, there));
    Transfer behind = value(a_->put(source_->slice(0, 8), there.slice(0, 8)));
    for (int i = 0; i < progress; ++i) {
      near_->progress();
      far_->progress();
    }
    std::optional<Result<void>> cancelled;
    beside(*far_, [&] { cancelled = transfer.cancel(); });
    ASSERT_TRUE(transfer.done());
    const auto here = source_->contents();
    const auto other = target_->contents();
    if (const auto over = transfer.poll(); !over) {
      EXPECT_EQ(over.error().code, Errc::cancelled) << describe(over.error());
      EXPECT_TRUE(transfer.settled());
      EXPECT_FALSE(behind.poll());
    }
    settle();
    EXPECT_TRUE(same_bytes(source_->contents(), here));
    EXPECT_TRUE(same_bytes(target_->contents(), other));
    expect_all_idle();
    transfer.reset();
    behind.reset();
    begin_anew();
  }
}

TEST_P(Served, ACopyThatThePeersEngineFailsFailsAlone) {
  const RemoteRegion there = remote();
  const std::string vendor(to_string(GetParam().there));
  for (const bool gets : {false, true}) {
    unsigned failed = 0;
    long calls = 0;
    // Each query whether the engine is done is a call, too. A slow run has thousands of them, and
    // the later ones are alike, so the steps grow.
    for (long nth = 0; nth <= calls; nth += 1 + nth / 16) {
      fail_nth_call(vendor, nth, EIO);
      Transfer transfer = value(start(gets, there));
      drive([&] { return transfer.done(); });
      calls = fail_nth_call(vendor, -1, 0);
      if (!transfer.poll()) {
        ++failed;
        EXPECT_EQ(transfer.poll().error().code, Errc::peer_failed);
      }
      EXPECT_TRUE(transfer.settled());
      ASSERT_EQ(a_->phase(), EndpointPhase::ready) << nth;
      ASSERT_EQ(b_->phase(), EndpointPhase::ready) << nth;
      expect_all_idle();
    }
    EXPECT_NE(failed, 0U);
    source_->fill(1);
    target_->fill(2);
    Transfer put = value(start(false, there));
    finish(put);
    EXPECT_TRUE(same_bytes(target_->contents(), pattern(kBytes, 1)));
  }
}

TEST_P(Served, ARefusedRequestEndsTheEndpoint) {
  for (const bool gets : {false, true}) {
    for (const unsigned long long nth : {0ULL, 1ULL, 2ULL, 3ULL}) {
      const RemoteRegion there = remote();
      // The first transfer causes the messages that are logged once per endpoint.
      Transfer first = value(start(gets, there));
      finish(first);
      refuse_requests(nth, 1, ENOMEM);
      auto started = start(gets, there);
      ASSERT_TRUE(started) << describe(started.error());
      drive([&] {
        return a_->phase() != EndpointPhase::ready || b_->phase() != EndpointPhase::ready;
      });
      refuse_requests(0, 0, 0);
      EXPECT_TRUE(expect_failure(*started).number == ENOMEM || b_->error()->number == ENOMEM);
      drive([&] { return b_->phase() == EndpointPhase::failed; });
      expect_all_idle();
      started->reset();
      begin_anew();
    }
  }
}

TEST_P(Served, TransfersEndWithEitherEndpointOrWorker) {
  enum class End : std::uint8_t { near_endpoint, near_worker, far_endpoint, far_worker };
  for (const End which :
       {End::near_endpoint, End::near_worker, End::far_endpoint, End::far_worker}) {
    for (const int progress : {1, 9}) {
      const RemoteRegion there = remote();
      Transfer put = value(start(false, there));
      Transfer get = value(start(true, there));
      for (int i = 0; i < progress; ++i) {
        near_->progress();
        far_->progress();
      }
      switch (which) {
        case End::near_endpoint:
          a_.reset();
          break;
        case End::near_worker:
          a_.reset();
          near_.reset();
          break;
        case End::far_endpoint:
          b_.reset();
          break;
        case End::far_worker:
          b_.reset();
          listener_.reset();
          far_.reset();
          break;
      }
      drive([&] { return put.done() && get.done(); });
      // After one round of progress() the get can't have succeeded; after nine it may have.
      EXPECT_TRUE(progress != 1 || !get.poll());
      // The other end notices by itself, and its copies end.
      drive_until_idle();
      expect_all_idle();
      put.reset();
      get.reset();
      begin_anew();
    }
  }
}

TEST_P(Served, ManyEndpointsAreServedByOnePool) {
  static_cast<void>(remote());  // makes the key
  constexpr std::size_t kEndpoints = 6;
  std::vector<std::pair<Endpoint, Endpoint>> others;
  std::vector<RemoteRegion> remotes;
  for (std::size_t i = 0; i < kEndpoints; ++i) {
    others.push_back(connect({}));
    remotes.push_back(value(others.back().first.remote(value(RemoteKey::unpack(key_->bytes())))));
  }
  const std::uint64_t share = kBytes / kEndpoints;
  for (const bool gets : {false, true}) {
    source_->fill(1);
    target_->fill(2);
    std::vector<Transfer> all;
    for (std::size_t i = 0; i < kEndpoints; ++i) {
      const Slice here = source_->slice(i * share, share);
      const RemoteSlice there = remotes[i].slice(i * share, share);
      all.push_back(
          value(gets ? others[i].first.get(here, there) : others[i].first.put(here, there)));
    }
    for (Transfer& transfer : all) finish(transfer);
    const auto got = gets ? source_->contents() : target_->contents();
    const auto expected = pattern(kBytes, gets ? 2 : 1);
    EXPECT_TRUE(std::equal(got.begin(), got.begin() + share * kEndpoints, expected.begin()));
  }
  expect_all_idle();
}

TEST_P(Served, APeerThatHasSaidGoodbyeIsNotAsked) {
  const RemoteRegion there = remote();
  b_.reset();
  drive([&] {
    return a_->phase() != EndpointPhase::ready || internals::look_at_endpoint(*near_).peer_left;
  });
  auto put = start(false, there);
  if (!put) return;  // the endpoint has already ended
  EXPECT_EQ(expect_failure(*put).code, Errc::peer_failed);
}

TEST_P(Served, EitherEndsPolicyIsKept) {
  const std::vector<Path> all_but_staged{Path::host, Path::zero_copy, Path::peer_memory};
  const bool staged_here = source_->region().path() == Path::staged;
  static_cast<void>(remote());
  // If the policy of this end excludes staging, remote() refuses the memory at once.
  auto [strict, peer_of_strict] =
      connect({.peer_timeout = 400ms, .paths = {.allow = all_but_staged}});
  const auto refused = strict.remote(value(RemoteKey::unpack(key_->bytes())));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().hint, Hint::path_policy) << describe(refused.error());
  // If the policy of the other end excludes it, the put fails and moves nothing.
  if (staged_here) return;
  key_.reset();
  end();
  begin({.peer_timeout = 400ms}, {.peer_timeout = 400ms, .paths = {.allow = all_but_staged}});
  const RemoteRegion there = remote();
  target_->fill(2);
  Transfer put = value(start(false, there));
  EXPECT_EQ(expect_failure(put).code, Errc::peer_failed);
  EXPECT_TRUE(same_bytes(target_->contents(), pattern(kBytes, 2)));
  EXPECT_EQ(a_->phase(), EndpointPhase::ready);
}

/// The peer makes no progress, so the first transfer hangs.
TEST_P(Served, AnotherEndpointDoesNotWaitForAPutThatHangs) {
  auto [other, accepted] = connect({});
  const Memory word(*here_, MemoryType::host, 64);
  const Memory inbox(*there_, MemoryType::host, 64);
  const MemoryKey key = value(MemoryKey::pack(inbox.region()));
  const RemoteRegion at = value(other.remote(value(RemoteKey::unpack(key.bytes()))));
  const RemoteRegion there = remote();
  Transfer slow = value(start(false, there));
  Transfer quick = value(other.put(word.all(), at.slice(0, 64)));
  const Deadline deadline = Deadline::after(5s);
  while (!quick.done() && !deadline.passed()) near_->progress();
  EXPECT_TRUE(quick.done());
  EXPECT_FALSE(slow.done());
  finish(slow);
}

TEST_P(Served, APutEndsByTheOperationTimeout) {
  key_.reset();
  end();
  begin({.peer_timeout = 10s, .operation_timeout = 300ms});
  keep_apart();
  const RemoteRegion there = remote();
  const auto begun = std::chrono::steady_clock::now();
  Transfer put = value(start(false, there));
  const Deadline deadline = Deadline::after(5s);
  while (a_->phase() == EndpointPhase::ready && !deadline.passed()) near_->progress();
  const auto age = std::chrono::steady_clock::now() - begun;
  EXPECT_GE(age, 300ms);
  EXPECT_LT(age, 3s);
  EXPECT_EQ(expect_failure(put).code, Errc::timed_out);
}

/// If a NIC carried the pieces, the peer would post a READ or WRITE for each, besides the answer.
TEST_P(Served, NoNicCarriesMemoryThatBothHaveMapped) {
  if (!GetParam().mapped) return;
  const RemoteRegion there = remote();
  for (const bool gets : {false, true}) {
    Transfer first = value(start(gets, there));  // afterwards the pieces are mapped
    finish(first);
    const std::uint32_t before = internals::look_at_endpoint(*far_).posted;
    Transfer transfer = value(start(gets, there));
    finish(transfer);
    constexpr std::uint32_t kPieces = (kBytes + kPiece - 1) / kPiece;
    EXPECT_LT(internals::look_at_endpoint(*far_).posted - before, 2 * kPieces);
  }
}

/// The peer's program makes no calls. The library's thread has to poll there, because the end of an
/// engine's copy wakes no sleeper.
TEST(ServedByAThread, PutsNeedNoCallOfThePeersProgram) {
  set_log_sink([](LogLevel, std::string_view) {});
  ::setenv("HBMWIRE_EMULATION_CUDA_DELAY_US", "1000", 1);
  const Context here = value(Context::create({.memory = {}, .nics = {"emu0"}}));
  const Context there = value(Context::create({.memory = {}, .nics = {"emu1"}}));
  const Worker near = value(Worker::create(here));
  const Worker far = value(Worker::create(there, {.progress_thread = true}));
  Listener listener = value(Listener::create(far, {.address = "127.0.0.1"}));
  Endpoint a =
      value(Endpoint::connect(near, "127.0.0.1:" + std::to_string(listener.port()), within(10s)));
  const Endpoint b = value(listener.accept(within(10s)));
  const Memory source(here, MemoryType::host, kBytes);
  const Memory target(there, MemoryType::cuda, kBytes);
  const MemoryKey key = value(MemoryKey::pack(target.region()));
  const RemoteRegion remote = value(a.remote(value(RemoteKey::unpack(key.bytes()))));
  // A thread that slept would wake only by the clock, four times a second. Takes the fastest of
  // several puts, because a busy machine delays some.
  std::chrono::nanoseconds quickest = 10s;
  for (int i = 0; i < 10 && quickest > 150ms; ++i) {
    const auto begun = std::chrono::steady_clock::now();
    Transfer put = value(a.put(source.all(), remote.slice(0, kBytes)));
    good(put.wait(within(10s)));
    EXPECT_EQ(put.explain().protocol, Protocol::proxied);
    quickest =
        std::min<std::chrono::nanoseconds>(quickest, std::chrono::steady_clock::now() - begun);
  }
  EXPECT_LT(quickest, 150ms);
  ::unsetenv("HBMWIRE_EMULATION_CUDA_DELAY_US");
  set_log_sink({});
}

/// Both ends belong to one worker, whose pieces serve the peer's questions and its own transfers.
TEST(ServedWithinAWorker, PutsAndGetsArriveWholeBothWays) {
  set_log_sink([](LogLevel, std::string_view) {});
  {
    const Context context = value(Context::create({.memory = {}, .nics = {"emu1"}}));
    Worker worker = value(Worker::create(context));
    Listener listener = value(Listener::create(worker, {.address = "127.0.0.1"}));
    Endpoint a = value(
        Endpoint::connect(worker, "127.0.0.1:" + std::to_string(listener.port()), within(10s)));
    Endpoint b = value(listener.accept(within(10s)));
    Memory of_a(context, MemoryType::cuda, kBytes);
    Memory of_b(context, MemoryType::rocm, kBytes);
    const MemoryKey key_of_a = value(MemoryKey::pack(of_a.region()));
    const MemoryKey key_of_b = value(MemoryKey::pack(of_b.region()));
    const RemoteRegion at_b = value(a.remote(value(RemoteKey::unpack(key_of_b.bytes()))));
    const RemoteRegion at_a = value(b.remote(value(RemoteKey::unpack(key_of_a.bytes()))));
    of_a.fill(1);
    of_b.fill(2);
    const std::uint64_t half = kBytes / 2;
    Transfer put = value(a.put(of_a.slice(0, half), at_b.slice(0, half)));
    Transfer get = value(b.get(of_b.slice(half, half), at_a.slice(half, half)));
    good(put.wait(within(10s)));
    good(get.wait(within(10s)));
    const auto came = of_b.contents();
    EXPECT_TRUE(std::equal(came.begin(), came.begin() + 2 * half, pattern(kBytes, 1).begin()));
    EXPECT_EQ(internals::look_at(worker).staged, 0U);
  }
  EXPECT_EQ(live_nic_objects(), "");
  set_log_sink({});
}

}  // namespace
}  // namespace hbmwire::test

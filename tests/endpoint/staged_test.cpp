// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <thread>

#include "hbmwire/log.hpp"
#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/memory_key.hpp"
#include "hbmwire/settings.hpp"

#include "staged_ends.hpp"

/// Device memory that this end's NIC does not reach (emu1 imports no dma-bufs). The contract is the
/// same as for other memory.
namespace hbmwire::test {
namespace {

INSTANTIATE_TEST_SUITE_P(Devices, Staged,
                         ::testing::Values(MemoryType::gaudi, MemoryType::cuda, MemoryType::rocm),
                         [](const auto& type) { return std::string(to_string(type.param)); });

TEST_P(Staged, MemoryTellsWhyItIsNotZeroCopy) {
  const Region& region = staged().region();
  EXPECT_EQ(region.path(), Path::staged);
  EXPECT_TRUE(region.nics().empty());
  EXPECT_EQ(region.remote().length_bytes, 0U);
  const auto tried = region.explain();
  ASSERT_EQ(tried.size(), 4U);
  EXPECT_EQ(tried[0].path, Path::zero_copy);
  EXPECT_EQ(tried[0].nic, "emu1");
  ASSERT_TRUE(tried[0].refusal);
  EXPECT_EQ(tried[0].refusal->hint, Hint::dmabuf_not_supported);
  EXPECT_TRUE(tried[3].taken);
  EXPECT_EQ(tried[3].path, Path::staged);
  const MemoryKey key = value(MemoryKey::pack(region, {.access = Access::remote_read}));
  EXPECT_TRUE(key.info().nics.empty());
  EXPECT_EQ(key.info().path, Path::staged);
  EXPECT_EQ(value(b_->remote(value(RemoteKey::unpack(key.bytes())))).path(), Path::staged);
}

TEST_P(Staged, PutsAndGetsOfAnySizeArriveWhole) {
  target();
  const RemoteRegion there = remote();
  unsigned seed = 0;
  for (const std::uint64_t size : {0UL, 1UL, 4095UL, kPiece, kPiece + 1, kBytes - 7}) {
    for (const bool gets : {false, true}) {
      staged().fill(++seed);
      target_->fill(++seed);
      const auto here = pattern(kBytes, seed - 1);
      const auto other = pattern(kBytes, seed);
      Transfer transfer = value(gets ? a_->get(staged().slice(7, size), there.slice(3, size))
                                     : a_->put(staged().slice(7, size), there.slice(3, size),
                                               {.level = CompletionLevel::visible}));
      finish(transfer);
      auto expected_here = here;
      auto expected_there = other;
      if (gets) {
        std::copy_n(other.begin() + 3, size, expected_here.begin() + 7);
      } else {
        std::copy_n(here.begin() + 7, size, expected_there.begin() + 3);
      }
      EXPECT_TRUE(same_bytes(staged().contents(), expected_here))
          << size << (gets ? " get" : " put");
      EXPECT_TRUE(same_bytes(target_->contents(), expected_there))
          << size << (gets ? " get" : " put");
      EXPECT_EQ(transfer.bytes(), size);
      EXPECT_EQ(transfer.path(), Path::staged);
      EXPECT_NE(describe(transfer.explain()).find("can't import dma-bufs"), std::string::npos);
    }
  }
  expect_idle();
}

TEST_P(Staged, BetweenTwoDevicesOnlyThisEndIsStaged) {
  // The peer's device is of another vendor, because SynapseAI has one card per process.
  const MemoryType other = GetParam() == MemoryType::cuda ? MemoryType::rocm : MemoryType::cuda;
  target(other);
  const RemoteRegion there = remote();
  staged().fill(1);
  target_->fill(2);
  Transfer put =
      value(a_->put(staged().all(), there.slice(0, kBytes), {.level = CompletionLevel::visible}));
  finish(put);
  EXPECT_TRUE(same_bytes(target_->contents(), pattern(kBytes, 1)));
  const TransferReport report = put.explain();
  EXPECT_EQ(report.path, Path::staged);
  EXPECT_EQ(report.remote_path, Path::zero_copy);
  target_->fill(3);
  Transfer get = value(a_->get(staged().all(), there.slice(0, kBytes)));
  finish(get);
  EXPECT_TRUE(same_bytes(staged().contents(), pattern(kBytes, 3)));
}

TEST_P(Staged, TransfersArriveInOrder) {
  target();
  Memory host(*here_, MemoryType::host, kBytes);
  Memory inbox(*there_, MemoryType::host, 64);
  const RemoteRegion there = remote();
  for (unsigned round = 0; round < 5; ++round) {
    host.fill(10 + round);
    staged().fill(100 + round);
    target_->fill(200 + round);
    Transfer receive = value(b_->receive(inbox.all()));
    Transfer immediate = value(b_->receive_immediate());
    // A put of the whole memory by the NIC; two staged puts over parts of it; a put by the NIC over
    // a part of the first staged one; and a message.
    std::vector<Transfer> all;
    all.push_back(value(a_->put(host.all(), there.slice(0, kBytes))));
    all.push_back(value(
        a_->put(staged().slice(0, 3 * kPiece), there.slice(0, 3 * kPiece), {.immediate = round})));
    all.push_back(value(a_->put(staged().slice(0, 100), there.slice(3 * kPiece, 100))));
    all.push_back(value(a_->put(host.slice(0, kPiece), there.slice(0, kPiece))));
    all.push_back(value(a_->send(host.slice(0, 8))));
    finish(receive);
    auto expected = pattern(kBytes, 10 + round);
    const auto put = pattern(kBytes, 100 + round);
    std::copy_n(put.begin() + kPiece, 2 * kPiece, expected.begin() + kPiece);
    std::copy_n(put.begin(), 100, expected.begin() + 3 * kPiece);
    EXPECT_TRUE(same_bytes(target_->contents(), expected)) << round;
    for (Transfer& transfer : all) finish(transfer);
    finish(immediate);
    EXPECT_EQ(immediate.value(), round);
    EXPECT_EQ(immediate.bytes(), kPiece) << "the immediate counts the bytes of the last piece";
  }
}

TEST_P(Staged, MessagesOfAnySizeArriveWholeBothWays) {
  target();
  unsigned seed = 0;
  for (const std::uint64_t size : {0UL, 64UL, 8192UL, 8193UL, kBytes}) {
    for (const auto level : {CompletionLevel::sent, CompletionLevel::arrived}) {
      staged().fill(++seed);
      target_->fill(++seed);
      Transfer receive = value(b_->receive(target_->all()));
      Transfer send = value(a_->send(staged().slice(0, size), {.level = level}));
      finish(receive);
      finish(send);
      auto expected = pattern(kBytes, seed);
      std::copy_n(pattern(kBytes, seed - 1).begin(), size, expected.begin());
      EXPECT_TRUE(same_bytes(target_->contents(), expected)) << size << ", out of the device";
      EXPECT_EQ(receive.bytes(), size);
      if (size != 0) {
        EXPECT_EQ(send.explain().protocol, Protocol::rendezvous_write);
        EXPECT_EQ(receive.path(), Path::staged);
      }

      target_->fill(++seed);
      expected = staged().contents();
      std::copy_n(pattern(kBytes, seed).begin(), size, expected.begin());
      Transfer back = value(b_->send(target_->slice(0, size), 5, {.level = level}));
      Transfer into = value(a_->receive(staged().all(), TagMatch{5}));
      finish(into);
      finish(back);
      EXPECT_TRUE(same_bytes(staged().contents(), expected)) << size << ", into the device";
      EXPECT_EQ(into.bytes(), size);
      EXPECT_EQ(into.path(), Path::staged);
    }
  }
  expect_idle();
}

TEST_P(Staged, AMessageThatComesBeforeItsReceiveArrivesInTheDevice) {
  target().fill(1);
  staged().fill(2);
  std::vector<Transfer> sends;
  for (unsigned i = 0; i < 40; ++i) sends.push_back(value(b_->send(target_->slice(64 * i, 64))));
  for (int i = 0; i < 2000; ++i) {
    near_->progress();
    far_->progress();
  }
  for (unsigned i = 0; i < 40; ++i) {
    Transfer into = value(a_->receive(staged().slice(64 * i, 64)));
    finish(into);
  }
  for (Transfer& send : sends) finish(send);
  const auto got = staged().contents();
  EXPECT_TRUE(std::equal(got.begin(), got.begin() + 64 * 40, pattern(kBytes, 1).begin()));
  expect_idle();
}

TEST_P(Staged, AMessageThatNoNicCanCarryFailsAlone) {
  target(MemoryType::host, Access::local_write);  // this end's NIC may not read it either
  Transfer send = value(b_->send(target_->all()));
  Transfer into = value(a_->receive(staged().all()));
  EXPECT_EQ(expect_failure(into).code, Errc::not_supported);
  EXPECT_EQ(expect_failure(send).code, Errc::peer_failed);
  Transfer too_long = value(b_->send(target_->slice(0, 100)));
  Transfer shorter = value(a_->receive(staged().slice(0, 99)));
  EXPECT_EQ(expect_failure(shorter).hint, Hint::message_truncated);
  finish(too_long);
  EXPECT_EQ(a_->phase(), EndpointPhase::ready);
  Transfer fits = value(a_->receive(staged().slice(0, 100)));
  Transfer again = value(b_->send(target_->slice(0, 100)));
  finish(fits);
  finish(again);
}

TEST_P(Staged, ListsAreRefused) {
  target();
  const RemoteRegion there = remote();
  const TransferPart part{.local = staged().slice(0, 64), .remote = there.slice(0, 64)};
  for (const bool puts : {true, false}) {
    const auto list = puts ? a_->prepare_put({&part, 1}) : a_->prepare_get({&part, 1});
    ASSERT_FALSE(list);
    EXPECT_EQ(list.error().code, Errc::not_supported) << describe(list.error());
  }
  // The memory can still be flushed.
  Transfer flushed = value(near_->flush(staged().all()));
  finish(flushed);
}

TEST_P(Staged, NothingMovesAfterACancelledTransfersReport) {
  target();
  RemoteRegion there = remote();
  for (const int progress : {0, 1, 2, 5, 11, 30}) {
    staged().fill(1);
    target_->fill(2);
    const bool gets = progress % 2 != 0;
    Transfer transfer = value(gets ? a_->get(staged().all(), there.slice(0, kBytes))
                                   : a_->put(staged().all(), there.slice(0, kBytes)));
    Transfer behind = value(a_->put(staged().slice(0, 8), there.slice(0, 8)));
    for (int i = 0; i < progress; ++i) near_->progress();
    std::optional<Result<void>> cancelled;
    beside(*far_, [&] { cancelled = transfer.cancel(); });
    ASSERT_TRUE(transfer.done());
    const auto here = staged().contents();
    const auto other = target_->contents();
    if (const auto over = transfer.poll(); !over) {
      EXPECT_EQ(over.error().code, Errc::cancelled) << describe(over.error());
      EXPECT_TRUE(transfer.settled());
      EXPECT_FALSE(behind.poll());
    }
    settle();
    EXPECT_TRUE(same_bytes(staged().contents(), here));
    EXPECT_TRUE(same_bytes(target_->contents(), other));
    expect_idle();
    transfer.reset();
    behind.reset();
    end();
    begin();
    key_.reset();
    there = remote();
  }
}

TEST_P(Staged, ARefusedRequestEndsTheEndpoint) {
  target();
  for (const bool gets : {false, true}) {
    for (unsigned long long nth : {0ULL, 1ULL, 3ULL, 5ULL}) {
      const RemoteRegion there = remote();
      staged().fill(1);
      Transfer transfer;
      refuse_requests(nth, 1, ENOMEM);
      transfer = value(gets ? a_->get(staged().all(), there.slice(0, kBytes))
                            : a_->put(staged().all(), there.slice(0, kBytes)));
      // The request stays at this end as long as the other one makes no progress.
      const Deadline deadline = Deadline::after(10s);
      while (a_->phase() == EndpointPhase::ready && !deadline.passed()) near_->progress();
      refuse_requests(0, 0, 0);
      const Error error = expect_failure(transfer);
      EXPECT_EQ(error.number, ENOMEM) << describe(error);
      expect_idle();
      transfer.reset();
      end();
      begin();
    }
  }
}

namespace {

unsigned long host_mappings() {
  std::istringstream live(live_objects());
  unsigned long sum = 0;
  unsigned long count = 0;
  for (std::string word; live >> word;) {
    if (word == "host_mapping") sum += count;
    if (std::isdigit(word[0]) != 0) count = std::stoul(word);
  }
  return sum;
}

}  // namespace

/// The pieces are pinned once for each device, and stay so while the worker lives.
TEST_P(Staged, PiecesArePinnedWhereTheEngineGainsByIt) {
  target();
  const RemoteRegion there = remote();
  staged().fill(1);
  const unsigned long before = host_mappings();
  for (int i = 0; i < 2; ++i) {
    Transfer put = value(a_->put(staged().all(), there.slice(0, kBytes)));
    finish(put);
    const bool gains = GetParam() != MemoryType::rocm;
    EXPECT_EQ(host_mappings(), before + (gains ? 1 : 0)) << live_objects();
  }
  EXPECT_TRUE(same_bytes(target_->contents(), pattern(kBytes, 1)));
  end();
  EXPECT_EQ(host_mappings(), before);
  begin();
}

/// Without pinning, the bytes of each piece are copied one more time.
TEST_P(Staged, PiecesThatCanNotBePinnedAreStillUsed) {
  target();
  const RemoteRegion there = remote();
  staged().fill(1);
  std::string said;
  set_log_sink([&](LogLevel, std::string_view text) { said += text; });
  fail_nth_call(std::string(to_string(GetParam())), 0, ENOMEM);
  Result<Transfer> put = a_->put(staged().all(), there.slice(0, kBytes));
  fail_nth_call(std::string(to_string(GetParam())), -1, 0);
  set_log_sink([](LogLevel, std::string_view) {});
  // With ROCm, no pieces are pinned.
  if (GetParam() == MemoryType::rocm) return;
  finish(*put);
  EXPECT_TRUE(same_bytes(target_->contents(), pattern(kBytes, 1)));
  EXPECT_NE(said.find("made twice"), std::string::npos) << said;
}

/// The driver of a NIC may move a piece's bytes before ibv_post_send(3) returns. The piece must be
/// given to the engine then, instead of waiting until all ready pieces are posted.
TEST_P(Staged, NoTwoPiecesArePostedBetweenTwoLooksAtCompletions) {
  target();
  const RemoteRegion there = remote();
  staged().fill(1);
  target_->fill(2);
  Transfer put = value(a_->put(staged().all(), there.slice(0, kBytes)));
  const auto whole = pattern(kBytes, 1);
  const auto arrived = [&] {
    const auto now = target_->contents();
    std::uint64_t pieces = 0;
    for (std::uint64_t at = 0; at + kPiece <= kBytes; at += kPiece) {
      const auto piece = std::span(now).subspan(at, kPiece);
      if (std::ranges::equal(piece, std::span(whole).subspan(at, kPiece))) ++pieces;
    }
    return pieces;
  };
  std::uint64_t before = 0;
  for (int i = 0; i < 200 && !put.done(); ++i) {
    std::this_thread::sleep_for(10ms);  // gives the engine time
    near_->progress();
    const std::uint64_t now = arrived();
    EXPECT_LE(now, before + 1);
    before = now;
  }
  finish(put);
  EXPECT_TRUE(same_bytes(target_->contents(), whole));
}

/// A copy that the engine fails ends only its own put or get.
TEST_P(Staged, ACopyThatTheEngineFailsFailsAlone) {
  target();
  const std::string vendor(to_string(GetParam()));
  const RemoteRegion there = remote();
  staged();
  for (const bool gets : {false, true}) {
    unsigned failed = 0;
    long calls = 0;
    // Each query whether the engine is done is a call, too. A slow run has thousands of them, and
    // the later ones are alike, so the steps grow.
    for (long nth = 0; nth <= calls; nth += 1 + nth / 16) {
      fail_nth_call(vendor, nth, EIO);
      Result<Transfer> transfer = gets ? a_->get(staged().all(), there.slice(0, kBytes))
                                       : a_->put(staged().all(), there.slice(0, kBytes));
      Transfer under_way = value(std::move(transfer));
      drive([&] { return under_way.done(); });
      calls = fail_nth_call(vendor, -1, 0);
      if (!under_way.poll()) ++failed;
      EXPECT_TRUE(under_way.settled());
      ASSERT_EQ(a_->phase(), EndpointPhase::ready) << nth;
      expect_idle();
    }
    EXPECT_NE(failed, 0U);
    staged().fill(1);
    target_->fill(2);
    Transfer put = value(a_->put(staged().all(), there.slice(0, kBytes)));
    finish(put);
    EXPECT_TRUE(same_bytes(target_->contents(), pattern(kBytes, 1)));
  }
}

/// The receiver has already told its target address, and would wait forever for the bytes.
TEST_P(Staged, AMessageThatTheEngineFailsEndsTheEndpoint) {
  target();
  staged();
  const std::string vendor(to_string(GetParam()));
  // Repeats until the failed call is one that the copy needs; not every call is.
  for (long nth = 0; a_->phase() == EndpointPhase::ready; ++nth) {
    ASSERT_LT(nth, 50);
    Transfer receive = value(b_->receive(target_->all()));
    Transfer send = value(a_->send(staged().all()));
    fail_nth_call(vendor, nth, EIO);
    drive([&] { return send.done() && receive.done(); });
    fail_nth_call(vendor, -1, 0);
    expect_idle();
    if (send.poll()) continue;
    EXPECT_EQ(expect_failure(send).stage, Stage::copy);
    EXPECT_EQ(expect_failure(receive).code, Errc::peer_failed);
  }
}

TEST_P(Staged, ARevokedKeyEndsTheEndpointAtBothEnds) {
  target();
  key_.emplace(value(MemoryKey::pack(target_->region(), {.revocable = true})));
  const RemoteRegion there = value(a_->remote(value(RemoteKey::unpack(key_->bytes()))));
  Transfer transfer = value(a_->put(staged().all(), there.slice(0, kBytes)));
  good(key_->revoke());
  // The error depends on the end that notices first.
  const Errc code = expect_failure(transfer).code;
  EXPECT_TRUE(code == Errc::permission_denied || code == Errc::peer_failed);
  drive([&] { return b_->phase() == EndpointPhase::failed; });
  expect_idle();
}

TEST_P(Staged, TransfersEndWithTheirEndpointAndWorker) {
  target();
  for (const bool whole_worker : {false, true}) {
    const RemoteRegion there = remote();
    Transfer put = value(a_->put(staged().all(), there.slice(0, kBytes)));
    Transfer get = value(a_->get(staged().all(), there.slice(0, kBytes)));
    for (int i = 0; i < 3; ++i) near_->progress();
    if (whole_worker) {
      end();
    } else {
      a_.reset();
      drive([&] { return put.done() && get.done(); });
      expect_idle();
    }
    EXPECT_TRUE(put.done());
    EXPECT_TRUE(get.done());
    EXPECT_FALSE(get.poll());
    put.reset();
    get.reset();
    end();
    begin();
  }
}

TEST_P(Staged, EndedTransfersKeepNoMemory) {
  target();
  const RemoteRegion there = remote();
  const std::shared_ptr<MemoryDomain> domain = value(here_->open(GetParam()));
  const std::uint64_t address = staged().region().address();
  for (const bool gets : {true, false}) {
    ASSERT_TRUE(domain->find(address, 1));
    Transfer transfer = value(gets ? a_->get(staged().all(), there.slice(0, kBytes))
                                   : a_->put(staged().all(), there.slice(0, kBytes)));
    finish(transfer);
  }
  staged_.reset();
  EXPECT_FALSE(domain->find(address, 1));
}

TEST_P(Staged, AnEmptyImmediateComesAfterEarlierTransfers) {
  target().fill(2);
  staged().fill(1);
  const RemoteRegion there = remote();
  Transfer told = value(b_->receive_immediate());
  Transfer put = value(a_->put(staged().all(), there.slice(0, kBytes)));
  Transfer nothing = value(a_->put(staged().slice(0, 0), there.slice(0, 0), {.immediate = 7}));
  finish(told);
  EXPECT_TRUE(same_bytes(target_->contents(), pattern(kBytes, 1)));
  finish(put);
  finish(nothing);
}

TEST_P(Staged, RegionObjectsNeedNotOutliveTheCall) {
  target().fill(2);
  staged().fill(1);
  auto far = std::make_unique<RemoteRegion>(remote());
  auto copy = std::make_unique<Region>(staged().region());
  Transfer put = value(a_->put(copy->slice(0, kBytes), far->slice(0, kBytes)));
  Transfer behind = value(a_->put(copy->slice(0, 8), far->slice(8, 8)));  // waits in the queue
  copy.reset();
  far.reset();
  finish(put);
  finish(behind);
  auto expected = pattern(kBytes, 1);
  // The second put wrote the first eight bytes of pattern 1 once more, at offset 8.
  overlay(expected, 8, 0, 1, 8);
  EXPECT_TRUE(same_bytes(target_->contents(), expected));
}

TEST_P(Staged, ManyEndpointsShareThePieces) {
  target();
  static_cast<void>(remote());  // makes the key
  constexpr std::size_t kEndpoints = 6;
  std::vector<std::pair<Endpoint, Endpoint>> others;
  std::vector<RemoteRegion> remotes;
  for (std::size_t i = 0; i < kEndpoints; ++i) {
    others.push_back(connect({}));
    remotes.push_back(value(others.back().first.remote(value(RemoteKey::unpack(key_->bytes())))));
  }
  staged().fill(1);
  target_->fill(2);
  std::vector<Transfer> puts;
  const std::uint64_t share = kBytes / kEndpoints;
  for (std::size_t i = 0; i < kEndpoints; ++i) {
    puts.push_back(value(
        others[i].first.put(staged().slice(i * share, share), remotes[i].slice(i * share, share))));
  }
  for (Transfer& put : puts) finish(put);
  const auto got = target_->contents();
  const auto expected = pattern(kBytes, 1);
  EXPECT_TRUE(std::equal(got.begin(), got.begin() + share * kEndpoints, expected.begin()));
  expect_idle();
}

TEST(StagedPolicy, ChoosesAmongPaths) {
  const auto path_of = [](const char* nic, const PathPolicy& policy) -> Result<Path> {
    const Context context = value(Context::create({.memory = {}, .nics = {nic}, .paths = policy}));
    HBMWIRE_TRY_ASSIGN(const Region region,
                       context.register_memory(value(context.allocate(MemoryType::cuda, 4096)),
                                               Access::local_write));
    return region.path();
  };
  set_log_sink([](LogLevel, std::string_view) {});
  EXPECT_EQ(value(path_of("emu0", {})), Path::zero_copy);
  EXPECT_EQ(value(path_of("emu1", {})), Path::staged);
  EXPECT_EQ(value(path_of("emu0", {.require = Path::staged})), Path::staged);
  EXPECT_EQ(value(path_of("emu0", {.allow = {Path::host, Path::staged}})), Path::staged);
  for (const PathPolicy& policy : {PathPolicy{.require = Path::zero_copy},
                                   PathPolicy{.allow = {Path::host, Path::zero_copy}}}) {
    const auto refused = path_of("emu1", policy);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::permission_denied) << describe(refused.error());
    EXPECT_EQ(refused.error().hint, Hint::dmabuf_not_supported) << describe(refused.error());
  }
  set_log_sink({});
}

}  // namespace
}  // namespace hbmwire::test

// SPDX-License-Identifier: MIT
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "hbmwire/context.hpp"
#include "hbmwire/memory_key.hpp"

#include "emulation/tests/nic/under_plan.hpp"
#include "ends.hpp"
#include "heard.hpp"
#include "internals.hpp"
#include "tests/library/emulated_hooks.hpp"
#include "tests/support/change_link.hpp"

/// Large puts and gets by two NICs, and the failure of one of them.
namespace hbmwire::test {
namespace {

constexpr std::uint64_t kFrom = 1U << 20U;
constexpr std::uint64_t kRailBytes = (4U << 20U) + 4321;

ContextOptions two_nics() { return {.memory = {}, .nics = {"emu0", "emu1"}}; }

/// Endpoints with two NICs. A dead peer is noticed after `peer_timeout` at the latest.
struct RailEnds : Ends {
  explicit RailEnds(std::chrono::nanoseconds peer_timeout = 600ms)
      : Ends({.peer_timeout = peer_timeout}, {}, two_nics()) {}

  RemoteRegion remote_of(const MemoryKey& key) {
    return value(a->remote(value(RemoteKey::unpack(key.bytes()))));
  }

  void finish(Transfer& transfer) {
    drive([&] { return transfer.done(); });
    const auto over = transfer.poll();
    EXPECT_TRUE(over) << (over ? "" : describe(over.error()));
  }
};

/// The sum of the bytes that the report's rails carried; 0 if there were none.
std::uint64_t carried(const Transfer& transfer) {
  std::uint64_t bytes = 0;
  for (const RailReport& rail : transfer.explain().rails) bytes += rail.bytes;
  return bytes;
}

std::uint64_t carried_by(const Transfer& transfer, std::string_view nic) {
  for (const RailReport& rail : transfer.explain().rails) {
    if (rail.nic == nic) return rail.bytes;
  }
  return 0;
}

class Rails : public ::testing::TestWithParam<MemoryType> {};

INSTANTIATE_TEST_SUITE_P(Memories, Rails,
                         ::testing::Values(MemoryType::host, MemoryType::gaudi, MemoryType::cuda),
                         [](const auto& type) { return std::string(to_string(type.param)); });

TEST_P(Rails, BytesOfEverySizeBothWays) {
  RailEnds ends;
  Memory here(ends.context, GetParam(), kRailBytes);
  Memory there(ends.context, GetParam(), kRailBytes);
  const MemoryKey key = value(MemoryKey::pack(there.region()));
  const RemoteRegion remote = ends.remote_of(key);
  for (const std::uint64_t length : {kFrom - 1, kFrom, kFrom + 1, kRailBytes - 3}) {
    here.fill(1);
    there.fill(2);
    // Buffer sees the bytes of both NICs, although it asks only the first one to flush.
    Transfer put = value(ends.a->put(here.slice(1, length), remote.slice(2, length),
                                     {.level = CompletionLevel::visible, .immediate = {}}));
    ends.finish(put);
    EXPECT_EQ(put.bytes(), length);
    EXPECT_EQ(carried(put), length < kFrom ? 0 : length);
    EXPECT_EQ(carried_by(put, "emu0") != 0 && carried_by(put, "emu1") != 0, length >= kFrom);
    EXPECT_EQ(put.path(), GetParam() == MemoryType::host ? Path::host : Path::nic_loopback);
    auto expected = pattern(kRailBytes, 2);
    // The put moved bytes of pattern 1 from offset 1 to offset 2.
    overlay(expected, 2, 1, 1, length);
    EXPECT_TRUE(same_bytes(there.contents(), expected)) << length;
    there.fill(3);
    Transfer get = value(ends.a->get(here.slice(3, length), remote.slice(0, length)));
    ends.finish(get);
    EXPECT_EQ(carried(get), length < kFrom ? 0 : length);
    EXPECT_EQ(carried_by(get, "emu1") != 0, length >= kFrom);
    expected = pattern(kRailBytes, 1);
    // The get moved bytes of pattern 3 from offset 0 to offset 3.
    overlay(expected, 3, 0, 3, length);
    EXPECT_TRUE(same_bytes(here.contents(), expected)) << length;
  }
}

TEST(FourRails, FourOfFiveNicsCarryOneTransfer) {
  Ends ends({}, {}, {.memory = {}, .nics = {"emu0", "emu1", "emu2", "emu3", "emu4"}});
  Memory here(ends.context, MemoryType::host, kRailBytes);
  Memory there(ends.context, MemoryType::host, kRailBytes);
  const MemoryKey key = value(MemoryKey::pack(there.region()));
  const RemoteRegion remote = value(ends.a->remote(value(RemoteKey::unpack(key.bytes()))));
  for (const bool gets : {false, true}) {
    here.fill(1);
    there.fill(2);
    Transfer transfer = value(gets ? ends.a->get(here.all(), remote.slice(0, kRailBytes))
                                   : ends.a->put(here.all(), remote.slice(0, kRailBytes)));
    ends.drive([&] { return transfer.done(); });
    good(transfer.wait(1s));
    const auto rails = transfer.explain().rails;
    EXPECT_EQ(rails.size(), 4U);
    for (const RailReport& rail : rails) EXPECT_NE(rail.bytes, 0U) << rail.nic;
    EXPECT_EQ(carried(transfer), kRailBytes);
    EXPECT_TRUE(same_bytes((gets ? here : there).contents(), pattern(kRailBytes, gets ? 2 : 1)));
  }
}

TEST(InvitedRails, CarryAsThoseOfAListener) {
  const Context context = value(Context::create(two_nics()));
  Worker a_worker = value(Worker::create(context));
  Worker b_worker = value(Worker::create(context));
  auto [a, b] = invite(a_worker, b_worker);
  Memory here(context, MemoryType::host, kRailBytes);
  Memory there(context, MemoryType::host, kRailBytes);
  here.fill(1);
  const MemoryKey key = value(MemoryKey::pack(there.region()));
  const RemoteRegion remote = value(a.remote(value(RemoteKey::unpack(key.bytes()))));
  Transfer put = value(a.put(here.all(), remote.slice(0, kRailBytes)));
  good(put.wait(10s));
  EXPECT_NE(carried_by(put, "emu1"), 0U);
  EXPECT_TRUE(same_bytes(there.contents(), pattern(kRailBytes, 1)));
}

TEST(RailReports, NameEachNicWhenTheEndpointHasGone) {
  RailEnds ends;
  Memory here(ends.context, MemoryType::host, kRailBytes);
  Memory there(ends.context, MemoryType::host, kRailBytes);
  const MemoryKey key = value(MemoryKey::pack(there.region()));
  Transfer put = value(ends.a->put(here.all(), ends.remote_of(key).slice(0, kRailBytes)));
  ends.finish(put);
  ends.a.reset();
  const TransferReport report = put.explain();
  ASSERT_EQ(report.rails.size(), 2U);
  EXPECT_EQ(report.nic, "emu0");
  EXPECT_EQ(report.rails[0].nic, "emu0");
  EXPECT_EQ(report.rails[1].nic, "emu1");
  const std::string by = "emu0: " + std::to_string(report.rails[0].bytes) +
                         " B and emu1: " + std::to_string(report.rails[1].bytes) + " B";
  EXPECT_NE(describe(report).find(by), std::string::npos) << describe(report);
}

TEST(OneRail, CarriesTransfersThatTheOtherNicMayNotCarry) {
  RailEnds ends;
  const Nic first = value(ends.context.open_nics()).front();
  Memory both(ends.context, MemoryType::host, kFrom);
  const Allocation memory = value(ends.context.allocate(MemoryType::host, kFrom));
  const Region one = value(first.register_memory(memory, kAll));
  const MemoryKey whole_key = value(MemoryKey::pack(both.region()));
  const MemoryKey one_key = value(MemoryKey::pack(one));
  const MemoryKey blind_key = value(MemoryKey::pack(
      both.region(), {.offset_bytes = 0, .length_bytes = {}, .access = Access::remote_write}));
  const auto by_one = [&](const Slice& from, const MemoryKey& key) {
    Transfer put = value(ends.a->put(from, ends.remote_of(key).slice(0, kFrom)));
    ends.finish(put);
    return put.explain().rails.empty();
  };
  EXPECT_FALSE(by_one(both.all(), whole_key));
  EXPECT_TRUE(by_one(one.slice(0, kFrom), whole_key)) << "one NIC has this end's memory";
  EXPECT_TRUE(by_one(both.all(), one_key)) << "one NIC has the peer's memory";
  EXPECT_TRUE(by_one(both.all(), blind_key)) << "what the other NIC wrote can't be read back";
}

/// Memory of this process that an engine also copies, and memory of two vendors, between which no
/// engine copies.
TEST(OneRail, CarriesMemoryThatEnginesCopyToo) {
  RailEnds ends;
  const Memory here(ends.context, MemoryType::gaudi, kRailBytes);
  const Memory there(ends.context, MemoryType::cuda, kRailBytes);
  const MemoryKey key = value(MemoryKey::pack(there.region()));
  const RemoteRegion remote = ends.remote_of(key);
  const bool copies = internals::look_at_endpoint(ends.a_worker).copies;
  for (const bool gets : {false, true}) {
    Transfer transfer = value(gets ? ends.a->get(here.all(), remote.slice(0, kRailBytes))
                                   : ends.a->put(here.all(), remote.slice(0, kRailBytes)));
    ends.finish(transfer);
    EXPECT_EQ(transfer.path(), Path::nic_loopback);
    EXPECT_EQ(transfer.explain().rails.empty(), copies);
  }
}

TEST(OneRail, CarriesListsAndMessages) {
  RailEnds ends;
  const Memory here(ends.context, MemoryType::host, kRailBytes);
  const Memory there(ends.context, MemoryType::host, kRailBytes);
  const MemoryKey key = value(MemoryKey::pack(there.region()));
  const RemoteRegion remote = ends.remote_of(key);
  const auto expect_by_first = [&](Transfer transfer) {
    ends.finish(transfer);
    EXPECT_TRUE(transfer.explain().rails.empty());
    EXPECT_EQ(transfer.explain().nic, "emu0");
  };
  const TransferPart part{here.all(), remote.slice(0, kRailBytes)};
  PreparedTransfer put = value(ends.a->prepare_put({&part, 1}));
  expect_by_first(value(put.post()));
  PreparedTransfer get = value(ends.a->prepare_get({&part, 1}));
  expect_by_first(value(get.post()));
  Transfer receive = value(ends.b->receive(there.all()));
  expect_by_first(value(ends.a->send(here.all())));
  ends.finish(receive);
  expect_by_first(value(ends.a->fetch_add(remote.slice(0, 8), 1)));
}

// --- order

struct Ordered : RailEnds {
  Memory big{context, MemoryType::host, kRailBytes};
  Memory small{context, MemoryType::host, 4096};
  Memory there{context, MemoryType::host, kRailBytes};
  MemoryKey key = value(MemoryKey::pack(there.region()));
  RemoteRegion remote = remote_of(key);

  explicit Ordered(std::chrono::nanoseconds peer_timeout = 10s) : RailEnds(peer_timeout) {
    big.fill(1);
    small.fill(2);
    there.fill(3);
  }
};

TEST(RailOrder, EarlierTransfersArriveEarlier) {
  if (!under_plan("delay,op=write,nth=1,ms=200")) return;
  Ordered ends;
  Transfer first = value(ends.a->put(ends.small.all(), ends.remote.slice(kRailBytes - 4096, 4096)));
  Transfer second = value(ends.a->put(ends.big.all(), ends.remote.slice(0, kRailBytes)));
  ends.finish(second);
  EXPECT_TRUE(first.done());
  EXPECT_NE(carried_by(second, "emu1"), 0U);
  EXPECT_TRUE(same_bytes(ends.there.contents(), pattern(kRailBytes, 1)));
}

TEST(RailOrder, LaterTransfersArriveLater) {
  // The plan delays the second piece, which the second NIC carries.
  if (!under_plan("delay,op=write,nth=2,ms=200")) return;
  Ordered ends;
  Transfer first = value(ends.a->put(ends.big.all(), ends.remote.slice(0, kRailBytes)));
  // Each of the later puts writes over a part of the first one.
  std::vector<Transfer> behind;
  for (std::uint64_t at = 0; at + 4096 <= kRailBytes; at += 128U << 10U)
    behind.push_back(value(ends.a->put(ends.small.all(), ends.remote.slice(at, 4096))));
  ends.finish(behind.back());
  EXPECT_TRUE(first.done());
  auto expected = pattern(kRailBytes, 1);
  for (std::uint64_t at = 0; at + 4096 <= kRailBytes; at += 128U << 10U)
    overlay(expected, at, 0, 2, 4096);
  EXPECT_TRUE(same_bytes(ends.there.contents(), expected));
}

TEST(RailOrder, AnImmediateComesBehindTheBytesOfAllRails) {
  if (!under_plan("delay,op=write,nth=2,ms=200")) return;
  Ordered ends;
  Transfer receive = value(ends.b->receive_immediate());
  Transfer put = value(ends.a->put(ends.big.all(), ends.remote.slice(0, kRailBytes),
                                   {.level = CompletionLevel::arrived, .immediate = 7}));
  ends.finish(receive);
  EXPECT_EQ(receive.value(), 7U);
  EXPECT_TRUE(same_bytes(ends.there.contents(), pattern(kRailBytes, 1)));
  ends.finish(put);
  EXPECT_NE(carried_by(put, "emu1"), 0U);
}

// --- choosing the NIC for the next piece

TEST(RailChoice, TheFasterNicCarriesMore) {
  // The plan delays the second piece, which the second NIC carries, and that NIC's later ones.
  if (!under_plan("delay,op=write,nth=2,ms=1000")) return;
  constexpr std::uint64_t kBytes = 4 * kRailBytes;  // more pieces than one NIC has in flight
  RailEnds ends(10s);
  const Memory here(ends.context, MemoryType::host, kBytes);
  const Memory there(ends.context, MemoryType::host, kBytes);
  const MemoryKey key = value(MemoryKey::pack(there.region()));
  Transfer put = value(ends.a->put(here.all(), ends.remote_of(key).slice(0, kBytes)));
  ends.finish(put);
  EXPECT_NE(carried_by(put, "emu1"), 0U);
  EXPECT_GT(carried_by(put, "emu0"), 2 * carried_by(put, "emu1"));
}

/// emu0 is the nearest NIC to the first device of each type, whatever its place in `nics`.
TEST(RailChoice, AmongIdleNicsTheNearestTakesAPiece) {
  ::setenv("HBMWIRE_RAILS_FROM", "64K", 1);
  constexpr std::uint64_t kPiece = 64U << 10U;  // the smallest length of a piece
  for (const auto& nics : {std::vector<std::string>{"emu0", "emu1"}, {"emu1", "emu0"}}) {
    Ends ends({}, {}, {.memory = {}, .nics = nics});
    for (const MemoryType type : {MemoryType::gaudi, MemoryType::cuda}) {
      Memory here(ends.context, type, kPiece);
      Memory there(ends.context, MemoryType::host, kPiece);
      const MemoryKey key = value(MemoryKey::pack(there.region()));
      const RemoteRegion remote = value(ends.a->remote(value(RemoteKey::unpack(key.bytes()))));
      Transfer put = value(ends.a->put(here.all(), remote.slice(0, kPiece)));
      finish(ends, put);
      EXPECT_EQ(carried_by(put, "emu0"), kPiece) << nics.front() << to_string(type);
    }
  }
  ::unsetenv("HBMWIRE_RAILS_FROM");
}

// --- a rail that fails

/// Puts and gets while emu1 fails. They succeed, and only the log reports the failure.
struct Losing : Ordered {
  Heard heard;

  Losing() : Ordered(600ms) {}

  void expect_bytes(bool by_both) {
    there.fill(3);
    Transfer put = value(a->put(big.all(), remote.slice(0, kRailBytes),
                                {.level = CompletionLevel::arrived, .immediate = 9}));
    finish(put);
    EXPECT_EQ(carried_by(put, "emu1") != 0, by_both);
    EXPECT_TRUE(same_bytes(there.contents(), pattern(kRailBytes, 1)));
    there.fill(4);
    Transfer get = value(a->get(big.all(), remote.slice(0, kRailBytes)));
    finish(get);
    EXPECT_EQ(carried_by(get, "emu1") != 0, by_both);
    EXPECT_TRUE(same_bytes(big.contents(), pattern(kRailBytes, 4)));
    big.fill(1);
  }

  void expect_loss(bool lost = true) {
    // Each end logs the loss.
    EXPECT_EQ(heard.count("rail emu1 of the endpoint with"), lost ? 2U : 0U);
    EXPECT_EQ(a->phase(), EndpointPhase::ready);
    EXPECT_EQ(b->phase(), EndpointPhase::ready);
  }
};

TEST(LostRail, ALossBeforeItsFirstUseLeavesTheOtherRail) {
  Losing ends;
  EXPECT_TRUE(change_link("emu1=down"));
  ends.expect_bytes(false);
  ends.expect_loss();
  EXPECT_TRUE(change_link("emu1=up"));
  // A lost rail is not used again, even if its link comes back.
  ends.expect_bytes(false);
  ends.expect_loss();
}

TEST(LostRail, ALossAtTheStartOfAPutLeavesThePutToTheOtherRail) {
  if (!under_plan("link,op=write,nth=2")) return;
  Losing ends;
  ends.expect_bytes(false);
  ends.expect_loss();
}

TEST(LostRail, ALossInTheMiddleOfAPutLeavesTheRestToTheOtherRail) {
  if (!under_plan("link,op=write,nth=6")) return;
  Losing ends;
  Transfer receive = value(ends.b->receive_immediate());
  Transfer put = value(ends.a->put(ends.big.all(), ends.remote.slice(0, kRailBytes),
                                   {.level = CompletionLevel::visible, .immediate = 5}));
  ends.finish(put);
  ends.finish(receive);
  EXPECT_NE(carried_by(put, "emu0"), kRailBytes) << "the other NIC carried a part";
  EXPECT_TRUE(same_bytes(ends.there.contents(), pattern(kRailBytes, 1)));
  // The first put's immediate arrived once: the next one is that of the next put.
  Transfer second = value(ends.b->receive_immediate());
  ends.expect_bytes(false);
  ends.finish(second);
  EXPECT_EQ(second.value(), 9U);
  ends.expect_loss();
}

TEST(LostRail, ALossWhileItReadsBackItsWritesCostsNoBytes) {
  if (!under_plan("link,op=read,nth=3")) return;
  Losing ends;
  Transfer put = value(ends.a->put(ends.big.all(), ends.remote.slice(0, kRailBytes)));
  ends.finish(put);
  EXPECT_TRUE(same_bytes(ends.there.contents(), pattern(kRailBytes, 1)));
  ends.expect_loss();
}

TEST(LostRail, ALossInTheMiddleOfAGetIntoADeviceCostsNoBytes) {
  // READs alternate between the first and the second NIC.
  if (!under_plan("link,op=read,nth=6")) return;
  Losing ends;
  Memory card(ends.context, MemoryType::gaudi, kRailBytes);
  card.fill(8);
  Transfer get = value(ends.a->get(card.all(), ends.remote.slice(0, kRailBytes)));
  ends.finish(get);
  EXPECT_EQ(carried_by(get, "emu0"), kRailBytes)
      << "the other NIC repeats what this one can't make visible";
  EXPECT_TRUE(same_bytes(card.contents(), pattern(kRailBytes, 3)));
  ends.expect_loss();
}

TEST(LostRail, ASendQueueThatRefusesIsTakenOut) {
  // The first WRITE, the READ after it, and a request in the middle.
  for (const unsigned long long n : {1ULL, 2ULL, 7ULL}) {
    SCOPED_TRACE(n);
    Losing ends;
    Transfer first = value(ends.a->flush());
    ends.finish(first);
    refuse_requests(n, 1, ENOMEM);
    Transfer put = value(ends.a->put(ends.big.all(), ends.remote.slice(0, kRailBytes)));
    refuse_requests(0, 0, 0);
    ends.finish(put);
    EXPECT_TRUE(same_bytes(ends.there.contents(), pattern(kRailBytes, 1)));
    ends.expect_loss();
    ends.expect_bytes(false);
  }
}

/// A WRITE of the second NIC stays in the network while its time runs out, and the first NIC
/// repeats it. When the put is reported, others may write there, and the late WRITE must not be
/// executed.
TEST(LostRail, DeliversNothingAfterTheReport) {
  if (!under_plan("late,op=write,nth=2,ms=1500")) return;
  Losing ends;
  Transfer put = value(ends.a->put(ends.big.all(), ends.remote.slice(0, kRailBytes)));
  ends.finish(put);
  EXPECT_TRUE(same_bytes(ends.there.contents(), pattern(kRailBytes, 1)));
  ends.expect_loss();
  ends.there.fill(5);
  const Deadline until = Deadline::after(2s);
  ends.drive([&] { return until.passed(); });
  EXPECT_TRUE(same_bytes(ends.there.contents(), pattern(kRailBytes, 5)));
}

TEST(LostRail, IsTakenOutInTime) {
  Losing ends;  // its peer_timeout is 600 ms
  EXPECT_TRUE(change_link("emu1=down"));
  const auto begun = std::chrono::steady_clock::now();
  Transfer put = value(ends.a->put(ends.big.all(), ends.remote.slice(0, kRailBytes)));
  ends.drive([&] { return ends.heard.count("rail emu1 of the endpoint with") != 0; });
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 600ms + 1500ms);
  ends.finish(put);
  EXPECT_TRUE(change_link("emu1=up"));
}

TEST(LostRail, PiecesOfAnOpenRailAreNotRepeated) {
  Losing ends;
  EXPECT_TRUE(change_link("emu1=down"));
  Transfer put = value(ends.a->put(ends.big.all(), ends.remote.slice(0, kRailBytes)));
  // Drives only this end: as long as the peer's end of the lost rail is open, its pieces may still
  // arrive there, so the other NIC must not repeat them.
  const Deadline until = Deadline::after(10s);
  while (ends.heard.count("rail emu1") == 0 && !until.passed()) ends.a_worker.progress();
  const Deadline idle = Deadline::after(200ms);
  while (!idle.passed()) ends.a_worker.progress();
  EXPECT_FALSE(put.done());
  ends.finish(put);
  EXPECT_TRUE(same_bytes(ends.there.contents(), pattern(kRailBytes, 1)));
  EXPECT_TRUE(change_link("emu1=up"));
}

TEST(LostRail, ARailThatEndsTwiceEndsTheEndpoint) {
  Losing ends;
  for (int i = 0; i < 2; ++i) internals::say_rail_down(ends.b_worker, 1);
  ends.drive([&] { return ends.a->phase() != EndpointPhase::ready; });
  EXPECT_EQ(ends.a->error()->code, Errc::protocol) << describe(*ends.a->error());
}

// --- an endpoint that ends

TEST(EndOfRails, ARevokedKeyEndsTheEndpoint) {
  Losing ends;
  MemoryKey key = value(
      MemoryKey::pack(ends.there.region(),
                      {.offset_bytes = 0, .length_bytes = {}, .access = {}, .revocable = true}));
  const RemoteRegion remote = ends.remote_of(key);
  good(key.revoke());
  Transfer put = value(ends.a->put(ends.big.all(), remote.slice(0, kRailBytes)));
  ends.drive([&] { return put.done(); });
  const auto over = put.poll();
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::permission_denied) << describe(over.error());
  EXPECT_TRUE(put.settled());
  EXPECT_EQ(ends.heard.count("rail emu1"), 0U);
}

TEST(EndOfRails, NothingOfACancelledPutArrivesAfterTheReport) {
  // The plan delays one piece of each NIC.
  if (!under_plan("delay,op=write,nth=3,ms=700; delay,op=write,nth=4,ms=700")) return;
  Losing ends;
  Transfer put = value(ends.a->put(ends.big.all(), ends.remote.slice(0, kRailBytes)));
  for (int i = 0; i < 10; ++i) ends.a_worker.progress();
  EXPECT_FALSE(put.done());
  beside(ends.b_worker, [&] { good(put.cancel()); });
  EXPECT_TRUE(put.settled());
  const auto then = ends.there.contents();
  EXPECT_FALSE(then == pattern(kRailBytes, 1));
  std::this_thread::sleep_for(1s);
  EXPECT_TRUE(same_bytes(ends.there.contents(), then));
}

/// The endpoint's own lane fails, and the peer is asked to close all lanes. The network holds a
/// piece of the second NIC, which must not be executed any more.
TEST(EndOfRails, NothingOfAFailedPutArrivesAfterTheReport) {
  if (!under_plan("late,op=write,nth=1,ms=1500; late,op=write,nth=2,ms=1500")) return;
  Losing ends;
  Transfer put = value(ends.a->put(ends.big.all(), ends.remote.slice(0, kRailBytes)));
  ends.drive([&] { return put.done(); });
  EXPECT_FALSE(put.poll());
  EXPECT_TRUE(put.settled());
  ends.there.fill(5);
  const Deadline until = Deadline::after(2s);
  ends.drive([&] { return until.passed(); });
  EXPECT_TRUE(same_bytes(ends.there.contents(), pattern(kRailBytes, 5)));
}

TEST(EndOfRails, AClosedEndpointLeavesNoObjects) {
  const std::string before = live_nic_objects();
  {
    Ordered ends;
    Transfer put = value(ends.a->put(ends.big.all(), ends.remote.slice(0, kRailBytes)));
    ends.finish(put);
    beside(ends.b_worker, [&] { good(ends.a->close(within(10s))); });
  }
  EXPECT_EQ(live_nic_objects(), before);
}

}  // namespace
}  // namespace hbmwire::test

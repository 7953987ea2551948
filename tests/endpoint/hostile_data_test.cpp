// SPDX-License-Identifier: MIT
#include <algorithm>
#include <optional>
#include <string>

#include "hbmwire/log.hpp"
#include "hbmwire/memory_key.hpp"
#include "hbmwire/settings.hpp"

#include "data_attack.hpp"
#include "endpoint/endpoint_state.hpp"
#include "tests/library/emulated_hooks.hpp"

/// A peer that completes the handshake, and then sends invalid messages on the data lane.
namespace hbmwire::test {
namespace {

using wire::MessageHeader;
using Kind = MessageHeader::Kind;
using Outcome = MessageHeader::Outcome;

constexpr std::uint64_t kLarge = 20000;

class HostileData : public ::testing::Test {
 protected:
  void SetUp() override {
    set_log_sink([](LogLevel, std::string_view) {});
  }

  void TearDown() override {
    attack_.reset();
    EXPECT_EQ(live_objects(), "");
    set_log_sink({});
  }

  DataAttack& begin(const std::function<void(wire::EndpointOffer&)>& alter_offer = {}) {
    return attack_.emplace(alter_offer);
  }

  std::optional<DataAttack> attack_;
};

/// The offer of a large message of `length` bytes at the beginning of the peer's memory.
MessageHeader offer_of(const RawPeer& peer, std::uint64_t length) {
  return {.kind = Kind::plain_large,
          .flags = MessageHeader::kReadable,
          .id = 1,
          .length = length,
          .address = peer.memory.region().address(),
          .remote_key = state_of(peer.memory.region()).registrations.front().mr.get()->rkey};
}

/// The peer claims a process and a node. The claims only affect what placement() tells.
TEST_F(HostileData, APeerOfAnotherProcessIsPlacedByTheNodeThatItClaims) {
  const auto placement_of_one_from = [&](const NodeId& node) {
    return begin([&](wire::EndpointOffer& offer) {
             // Another incarnation stands for another process.
             offer.control.incarnation = ++offer.data.incarnation;
             offer.node = node;
           })
        .victim.placement();
  };
  NodeId other = node_id();
  other.back() ^= 1U;
  EXPECT_EQ(placement_of_one_from(node_id()), Placement::same_node);
  EXPECT_EQ(placement_of_one_from(other), Placement::two_nodes);
  EXPECT_EQ(placement_of_one_from(kUnknownNode), Placement::two_nodes);
}

TEST_F(HostileData, BytesThatAreNoMessage) {
  std::vector<std::vector<std::byte>> all;
  // Lengths around the 40 bytes of a header, and that of the longest message.
  for (const std::size_t bytes : {0U, 1U, 39U, 40U, 41U, 8232U}) {
    all.push_back(pattern(bytes, 9));
    all.emplace_back(bytes);
  }
  for (const auto& bytes : all) {
    DataAttack& attack = begin();
    attack.start(attack.victim.receive(attack.open.slice(0, 64)));
    attack.peer.say_bytes(bytes);
    attack.expect_failure(Errc::protocol, "malformed");
    attack.expect_memory_unchanged();
  }
}

TEST_F(HostileData, HeadersThatAreNearlyGood) {
  const MessageHeader none;
  const std::vector<MessageHeader> all{
      {.kind = static_cast<Kind>(0)},
      {.kind = static_cast<Kind>(11)},
      {.kind = Kind::put, .id = 1, .tag = 1, .length = 64},  // of no region
      {.kind = Kind::get, .id = 1, .tag = 1, .length = 64},
      {.kind = static_cast<Kind>(255)},
      none,                                // gives no credit
      {.kind = Kind::plain, .length = 1},  // no bytes follow
      {.kind = Kind::plain, .length = 1ULL << 63U},
      {.kind = Kind::tagged, .length = ~0ULL},
      {.kind = Kind::plain_large, .id = 1},  // without memory
      {.kind = Kind::tagged_large, .flags = MessageHeader::kReadable, .id = 1},
      {.kind = Kind::plain_large, .length = 10000},  // without an id
      {.kind = Kind::plain_large,
       .flags = MessageHeader::kReadable,
       .id = 1,
       .length = 1ULL << 63U,
       .address = 1ULL << 63U},
      {.kind = Kind::clear, .id = 1, .tag = 1},
      {.kind = Kind::written, .id = 1},
      {.kind = Kind::plain, .path = 3},     // a path that is never sent
      {.kind = Kind::plain, .path = 6},     // no path
      {.kind = Kind::plain, .path = 0x50},  // no type of memory
      {.kind = Kind::plain, .shared_key = 1},
  };
  for (const MessageHeader& header : all) {
    DataAttack& attack = begin();
    attack.start(attack.victim.receive(attack.open.slice(0, 64)));
    attack.start(attack.victim.receive(attack.device.slice(0, 64), TagMatch{0, 0}));
    attack.peer.say(header);
    attack.expect_failure(Errc::protocol, "malformed");
    attack.expect_memory_unchanged();
  }
}

TEST_F(HostileData, LargeMessagesOfNothingForReceivesOfNothing) {
  for (const std::uint8_t flags : {std::uint8_t{0}, MessageHeader::kReadable}) {
    DataAttack& attack = begin();
    attack.start(attack.victim.receive({}));
    attack.start(attack.victim.receive(attack.device.slice(0, 4096), TagMatch{5}));
    attack.peer.say({.kind = Kind::tagged_large, .flags = flags, .id = 1, .tag = 5});
    attack.peer.say({.kind = Kind::plain_large, .flags = flags, .id = 2});
    attack.expect_failure(Errc::protocol, "malformed");
    attack.expect_memory_unchanged();
  }
}

TEST_F(HostileData, AMessageThatIsLongerThanAnyMayBe) {
  DataAttack& attack = begin();
  attack.start(attack.victim.receive(attack.open.all()));
  const MessageHeader header{.kind = Kind::plain, .length = 12000};
  attack.peer.say(header, pattern(12000, 1));
  attack.expect_failure(Errc::protocol, "too long");
  attack.expect_memory_unchanged();
}

TEST_F(HostileData, AnImmediateWithAMessage) {
  DataAttack& attack = begin();
  attack.start(attack.victim.receive(attack.open.all()));
  std::vector<std::byte> bytes(wire::kMessageHeaderBytes);
  wire::encode({.kind = Kind::plain}, bytes.data());
  attack.peer.say_bytes(bytes, IBV_WR_SEND_WITH_IMM);
  attack.expect_failure(Errc::protocol, "malformed");
}

TEST_F(HostileData, AtomicsAndReadsWithoutAKey) {
  for (const ibv_wr_opcode opcode :
       {IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
    DataAttack& attack = begin();
    attack.peer.reach(opcode, attack.open.region().address(), 0x1234, 8);
    attack.expect_failure(Errc::peer_failed, "work request failed");
    attack.expect_memory_unchanged();
  }
}

TEST_F(HostileData, NoKeyOpensTheLibrarysOwnMemory) {
  // Acts as if the attacker had guessed the keys of the library's buffers.
  for (const bool messages : {false, true}) {
    DataAttack& attack = begin();
    const Region& own =
        messages ? attack.state().wiring.buffers() : state_of(attack.worker).nics.front().results;
    attack.peer.reach(IBV_WR_RDMA_WRITE, own.address(),
                      state_of(own).registrations.front().mr.get()->rkey, 8);
    attack.drive_until([&] { return attack.peer.broken(); });
    EXPECT_EQ(attack.peer.last_failure(), IBV_WC_REM_ACCESS_ERR);
    attack.expect_failure(Errc::peer_failed, "work request failed");
  }
}

TEST_F(HostileData, ReportsAboutUnknownMessages) {
  // The victim has given none of these ids.
  const std::vector<MessageHeader> all{
      {.kind = Kind::clear, .id = 1, .tag = 1, .length = 64, .address = 4096, .remote_key = 1},
      {.kind = Kind::finished, .id = 1, .length = 64},
      {.kind = Kind::finished, .id = 0xffff, .outcome = Outcome::too_long},
      {.kind = Kind::finished, .id = 0xffffffff, .outcome = Outcome::refused},
      {.kind = Kind::finished, .id = 0x10000, .length = 64},
      {.kind = Kind::written, .id = 1, .length = 64},
      {.kind = Kind::written, .id = 17, .length = 64},
      {.kind = Kind::written, .id = 0x10001, .length = 64},
  };
  for (const MessageHeader& header : all) {
    DataAttack& attack = begin();
    attack.start(attack.victim.receive(attack.open.slice(0, 64)));
    attack.peer.say(header);
    attack.expect_failure(Errc::protocol, "the peer");
    attack.expect_memory_unchanged();
  }
}

TEST_F(HostileData, AWrongAnswerAboutALargeMessage) {
  // The claims of the peer about a message that it may read (it should answer `finished`), and
  // about one for which it must ask (it should answer `clear`).
  struct Word {
    bool readable;
    MessageHeader header;
  };

  const std::vector<Word> all{
      {true, {.kind = Kind::finished, .length = kLarge - 1}},
      {true, {.kind = Kind::finished}},
      {true, {.kind = Kind::clear, .tag = 1, .length = kLarge}},
      {true, {.kind = Kind::written, .length = kLarge}},
      // The victim has not asked for the bytes.
      {false, {.kind = Kind::finished, .length = kLarge}},
      {false, {.kind = Kind::clear, .tag = 1, .length = kLarge - 1}},
      {false, {.kind = Kind::clear, .tag = 1, .length = kLarge + 1}},
      {false, {.kind = Kind::clear, .tag = 0, .length = kLarge}},
      {false, {.kind = Kind::clear, .tag = 1ULL << 32U, .length = kLarge}},
  };
  for (const Word& word : all) {
    DataAttack& attack = begin();
    Memory& from = word.readable ? attack.open : attack.closed;
    attack.start(attack.victim.send(from.slice(0, kLarge)));
    MessageHeader header = word.header;
    header.id = attack.peer.expect(Kind::plain_large).id;
    attack.peer.say(header);
    attack.expect_failure(Errc::protocol, "the peer");
    EXPECT_FALSE(attack.pending.front().poll());
    attack.expect_memory_unchanged();
  }
}

TEST_F(HostileData, TheSameMessageTwice) {
  for (const bool asks : {false, true}) {
    DataAttack& attack = begin();
    Memory& from = asks ? attack.closed : attack.open;
    Transfer& send = attack.start(attack.victim.send(from.slice(0, kLarge)));
    const MessageHeader offered = attack.peer.expect(Kind::plain_large);
    MessageHeader word{.kind = Kind::finished, .id = offered.id, .length = kLarge};
    if (asks) {
      const MessageHeader own = offer_of(attack.peer, kLarge);
      word.kind = Kind::clear;
      word.tag = 1;
      word.address = own.address;
      word.remote_key = own.remote_key;
    }
    attack.peer.say(word);
    attack.drive_until([&] { return send.done(); });
    EXPECT_TRUE(value(send.poll()));
    attack.peer.say(word);
    attack.expect_failure(Errc::protocol, "the peer");
  }
}

/// Memory that the attacker claims to have, and that its own NIC does not reach.
RemoteRegion served_by(const DataAttack& attack) {
  return detail::RemoteRegionState{.address = 4096,
                                   .length_bytes = 2 * kLarge,
                                   .connection = ~attack.state().number,
                                   .access = kAll,
                                   .type = MemoryType::cuda,
                                   .path = Path::staged,
                                   .remote_key = 0,
                                   .token = 77}
      .to_region();
}

TEST_F(HostileData, AWrongAnswerAboutARequestedMove) {
  const std::vector<MessageHeader> all{
      {.kind = Kind::finished, .length = kLarge - 1},
      {.kind = Kind::finished},
      {.kind = Kind::clear, .tag = 1, .length = kLarge},
      {.kind = Kind::written, .length = kLarge},
  };
  for (const bool gets : {false, true}) {
    for (const MessageHeader& word : all) {
      DataAttack& attack = begin();
      const RemoteRegion there = served_by(attack);
      const Slice here = attack.closed.slice(0, kLarge);
      attack.start(gets ? attack.victim.get(here, there.slice(0, kLarge))
                        : attack.victim.put(here, there.slice(0, kLarge)));
      const MessageHeader asked = attack.peer.expect(gets ? Kind::get : Kind::put);
      EXPECT_EQ(asked.tag, 77U);
      EXPECT_EQ(asked.length, kLarge);
      MessageHeader header = word;
      header.id = asked.id;
      attack.peer.say(header);
      attack.expect_failure(Errc::protocol, "the peer");
      EXPECT_FALSE(attack.pending.front().poll());
      attack.expect_memory_unchanged();
    }
  }
}

TEST_F(HostileData, TheSameAnswerTwiceAboutARequestedMove) {
  DataAttack& attack = begin();
  const RemoteRegion there = served_by(attack);
  Transfer& put =
      attack.start(attack.victim.put(attack.closed.slice(0, kLarge), there.slice(0, kLarge)));
  const MessageHeader word{
      .kind = Kind::finished, .id = attack.peer.expect(Kind::put).id, .length = kLarge};
  attack.peer.say(word);
  attack.drive_until([&] { return put.done(); });
  EXPECT_TRUE(value(put.poll()));
  attack.peer.say(word);
  attack.expect_failure(Errc::protocol, "the peer");
}

/// Memory opened for one transfer is closed when the peer has reported its end.
TEST_F(HostileData, AReadOfferIsValidOnce) {
  DataAttack& attack = begin();
  const RemoteRegion there = served_by(attack);
  Transfer& put =
      attack.start(attack.victim.put(attack.closed.slice(0, kLarge), there.slice(0, kLarge)));
  const MessageHeader asked = attack.peer.expect(Kind::put);
  attack.peer.reach(IBV_WR_RDMA_READ, asked.address, asked.remote_key, 64);
  attack.drive();
  EXPECT_FALSE(attack.peer.broken());
  attack.peer.say({.kind = Kind::finished, .id = asked.id, .length = kLarge});
  attack.drive_until([&] { return put.done(); });
  attack.peer.reach(IBV_WR_RDMA_READ, asked.address, asked.remote_key, 64);
  attack.drive_until([&] { return attack.peer.broken(); });
  EXPECT_EQ(attack.peer.last_failure(), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(HostileData, APeerReadsNoMoreThanItWasAskedTo) {
  DataAttack& attack = begin();
  const RemoteRegion there = served_by(attack);
  attack.start(attack.victim.put(attack.closed.slice(64, kLarge), there.slice(0, kLarge)));
  const MessageHeader asked = attack.peer.expect(Kind::put);
  attack.peer.reach(IBV_WR_RDMA_READ, asked.address + kLarge, asked.remote_key, 1);
  attack.drive_until([&] { return attack.peer.broken(); });
  EXPECT_EQ(attack.peer.last_failure(), IBV_WC_REM_ACCESS_ERR);
}

/// The attacker only gets an answer. Guessing a token means to guess 64 bits.
TEST_F(HostileData, AccessWithoutAKeyIsDenied) {
  DataAttack& attack = begin();
  const MemoryKey key = value(
      MemoryKey::pack(attack.open.region(),
                      {.offset_bytes = 4096, .length_bytes = 64, .access = Access::remote_read}));
  const MessageHeader own = offer_of(attack.peer, 64);

  struct Request {
    Kind kind;
    std::uint64_t token;
    std::uint64_t at;  // relative to the region's beginning
    std::uint64_t length;
    Outcome outcome;
  };

  const std::uint64_t token = key.info().token;
  const std::vector<Request> all{{Kind::get, token, 4096, 64, Outcome::taken},
                                 {Kind::put, token, 4096, 64, Outcome::denied},
                                 {Kind::get, token ^ 1, 4096, 64, Outcome::denied},
                                 {Kind::get, token, 4095, 64, Outcome::denied},
                                 {Kind::get, token, 4096, 65, Outcome::denied},
                                 {Kind::get, token, 4097, 64, Outcome::denied},
                                 {Kind::get, token, 4096, ~std::uint64_t{0} / 2, Outcome::denied},
                                 {Kind::get, token, 4096 + 63, 1, Outcome::taken}};
  std::uint32_t id = 0;
  for (const Request& request : all) {
    std::vector<std::byte> bytes(wire::kMessageHeaderBytes + wire::kPlaceBytes);
    wire::encode({.kind = request.kind,
                  .id = ++id,
                  .tag = request.token,
                  .length = request.length,
                  .address = own.address,
                  .remote_key = own.remote_key},
                 bytes.data());
    wire::encode_place(attack.open.region().address() + request.at,
                       bytes.data() + wire::kMessageHeaderBytes);
    attack.peer.say_bytes(bytes);
    const MessageHeader answer = attack.peer.expect(Kind::finished);
    EXPECT_EQ(answer.id, id);
    EXPECT_EQ(answer.outcome, request.outcome) << id;
  }
  attack.expect_memory_unchanged();
  attack.expect_unharmed();
}

TEST_F(HostileData, AnIdOfAnEarlierMessage) {
  DataAttack& attack = begin();
  std::uint32_t first = 0;
  for (int i = 0; i < 2; ++i) {
    Transfer& send = attack.start(attack.victim.send(attack.open.slice(0, kLarge)));
    const MessageHeader offered = attack.peer.expect(Kind::plain_large);
    if (i == 0) first = offered.id;
    EXPECT_EQ(offered.id == first, i == 0) << "an id names one use of a place, not the place";
    attack.peer.say({.kind = Kind::finished, .id = first, .length = kLarge});
    if (i == 0) attack.drive_until([&] { return send.done(); });
  }
  attack.expect_failure(Errc::protocol, "the peer");
  EXPECT_FALSE(attack.pending.back().poll());
}

TEST_F(HostileData, TooManyCredits) {
  for (const bool at_once : {true, false}) {
    DataAttack& attack = begin();
    attack.start(attack.victim.send(attack.open.slice(0, kLarge)));
    for (int i = 0; i < (at_once ? 1 : 500) && !attack.peer.broken(); ++i)
      attack.peer.say({.credits = static_cast<std::uint16_t>(at_once ? 65535 : 1)});
    attack.expect_failure(Errc::protocol, "credits");
  }
}

TEST_F(HostileData, CreditsForMessagesThatThePeerHasNoReceiveFor) {
  DataAttack& attack =
      begin([](wire::EndpointOffer& offer) { offer.receive_depth = offer.places = 65536; });
  attack.peer.takes_messages = false;
  for (int i = 0; i < 1000; ++i) {
    auto send = attack.victim.send(attack.open.slice(0, 64));
    if (!send) break;
    attack.start(std::move(send));
    attack.drive(1);
  }
  attack.expect_failure(Errc::peer_failed, "receiver-not-ready");
}

TEST_F(HostileData, MoreMessagesThanThePeerMaySend) {
  const std::vector<MessageHeader> all{
      {.kind = Kind::plain},
      {.kind = Kind::tagged, .id = 7, .tag = 5},
      {.kind = Kind::plain_large, .id = 7, .length = kLarge},
      {.kind = Kind::tagged_large, .id = 7, .tag = 9, .length = ~0ULL},
  };
  for (const MessageHeader& header : all) {
    DataAttack& attack = begin();
    // The listener's endpoints have 16 receives, so the 17th message is one too many.
    for (int i = 0; i < 17; ++i) attack.peer.say(header);
    attack.expect_failure(Errc::protocol, "more messages");
  }
  DataAttack& attack = begin();
  for (unsigned i = 0; i < 17; ++i) attack.peer.say_immediate(i);
  attack.expect_failure(Errc::protocol, "more immediates");
}

TEST_F(HostileData, AFloodOfMessagesThatThePeerMaySend) {
  // Messages that are set aside return their credits until there is no more room for them.
  DataAttack& attack = begin();
  const auto bytes = pattern(1000, 4);
  for (int i = 0; i < 5000 && attack.victim.phase() == EndpointPhase::ready; ++i)
    attack.peer.say({.kind = Kind::plain, .length = 1000}, bytes);
  attack.expect_failure(Errc::protocol, "more messages");
}

TEST_F(HostileData, OffersOfMissingMemory) {
  struct Offered {
    const char* what;
    std::uint64_t length;
    bool key;
  };

  for (const auto& [what, length, key] :
       {Offered{"no such key", kLarge, false}, Offered{"more than there is", 200 << 10, true}}) {
    for (const bool device : {false, true}) {
      DataAttack& attack = begin();
      attack.start(attack.victim.receive(device ? attack.device.all() : attack.open.all()));
      MessageHeader header = offer_of(attack.peer, length);
      if (!key) header.remote_key ^= 0x5a5a5a;
      // The offer begins 100 KiB before the end of the peer's memory, so 200 KiB are too many.
      header.address += RawPeer::kPlace * RawPeer::kDepth - (100 << 10);
      attack.peer.say(header);
      attack.expect_failure(Errc::permission_denied, "work request failed");
      EXPECT_FALSE(attack.pending.front().poll()) << what;
      attack.expect_memory_unchanged();
    }
  }
}

TEST_F(HostileData, AnOfferThatIsLongerThanItsReceiveWritesNothing) {
  DataAttack& attack = begin();
  Transfer& receive = attack.start(attack.victim.receive(attack.open.slice(0, 64)));
  attack.peer.say(offer_of(attack.peer, 1ULL << 40U));
  EXPECT_EQ(attack.peer.expect(Kind::finished).outcome, Outcome::too_long);
  attack.drive_until([&] { return receive.done(); });
  EXPECT_EQ(receive.poll().error().hint, Hint::message_truncated);
  EXPECT_EQ(receive.bytes(), 1ULL << 40U);
  EXPECT_EQ(attack.victim.phase(), EndpointPhase::ready);
  attack.expect_unharmed();
  attack.expect_memory_unchanged();
}

TEST_F(HostileData, APeerWritesMoreThanItWasAskedTo) {
  // The region is closed to peers, so the key covers only the bytes of the receive.
  for (const int off : {-1, 1}) {
    for (const bool device : {false, true}) {
      DataAttack& attack = begin();
      Memory& into = device ? attack.device : attack.closed;
      attack.start(attack.victim.receive(into.slice(4096, kLarge)));
      attack.peer.say({.kind = Kind::plain_large, .id = 3, .length = kLarge});
      const MessageHeader clear = attack.peer.expect(Kind::clear);
      EXPECT_EQ(clear.length, kLarge);
      attack.peer.reach(IBV_WR_RDMA_WRITE, clear.address + static_cast<std::uint64_t>(off),
                        clear.remote_key, RawPeer::kPlace);
      if (off > 0) {
        attack.peer.reach(IBV_WR_RDMA_WRITE, clear.address + kLarge - 1, clear.remote_key, 2);
      }
      attack.expect_failure(Errc::peer_failed, "work request failed");
      EXPECT_EQ(attack.peer.last_failure(), IBV_WC_REM_ACCESS_ERR);
      attack.expect_memory_unchanged(4096, kLarge);
    }
  }
}

TEST_F(HostileData, APeerMayNotReadTheTargetOfARequestedWrite) {
  DataAttack& attack = begin();
  attack.start(attack.victim.receive(attack.closed.slice(0, kLarge)));
  attack.peer.say({.kind = Kind::plain_large, .id = 3, .length = kLarge});
  const MessageHeader clear = attack.peer.expect(Kind::clear);
  attack.peer.reach(IBV_WR_RDMA_READ, clear.address, clear.remote_key, 64);
  attack.expect_failure(Errc::peer_failed, "work request failed");
  EXPECT_EQ(attack.peer.last_failure(), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(HostileData, APeerReportsItsWriteBeforeTheRequest) {
  DataAttack& attack = begin();
  attack.start(attack.victim.receive(attack.closed.slice(0, kLarge)));
  attack.peer.say({.kind = Kind::plain_large, .id = 3, .length = kLarge});
  attack.peer.say({.kind = Kind::written, .id = 1, .length = kLarge});
  const MessageHeader clear = attack.peer.expect(Kind::clear);
  attack.drive();
  EXPECT_TRUE(attack.pending.front().done());
  // The victim has taken the report for the end of the write, so the key is no longer valid.
  attack.peer.reach(IBV_WR_RDMA_WRITE, clear.address, clear.remote_key, 64);
  attack.drive_until([&] { return attack.peer.broken(); });
  EXPECT_EQ(attack.peer.last_failure(), IBV_WC_REM_ACCESS_ERR);
  attack.expect_memory_unchanged();
}

TEST_F(HostileData, APeerNeverWritesTheRequestedBytes) {
  DataAttack& attack = begin();
  attack.state().options.operation_timeout = 200ms;
  attack.start(attack.victim.receive(attack.closed.slice(0, kLarge)));
  attack.peer.say({.kind = Kind::plain_large, .id = 3, .length = kLarge});
  attack.expect_failure(Errc::timed_out, "operation's timeout");
  EXPECT_FALSE(attack.pending.front().poll());
}

TEST_F(HostileData, NarrowKeysGoWithTheEndpoint) {
  for (const bool device : {false, true}) {
    DataAttack& attack = begin();
    // A second connection of the attacker uses the victim's key, which its NIC takes while the
    // victim's endpoint lives.
    RawPeer second(attack.context, attack.worker, attack.listener.port());
    const Endpoint other = value(attack.listener.accept(within(10s)));
    Memory& into = device ? attack.device : attack.closed;
    Transfer& receive = attack.start(attack.victim.receive(into.slice(0, kLarge)));
    attack.peer.say({.kind = Kind::plain_large, .id = 3, .length = kLarge});
    const MessageHeader clear = attack.peer.expect(Kind::clear);
    second.reach(IBV_WR_RDMA_WRITE, clear.address, clear.remote_key, 64);
    for (int i = 0; i < 100; ++i) second.progress();
    EXPECT_FALSE(second.broken());
    EXPECT_EQ(attack.victim.phase(), EndpointPhase::ready);
    attack.peer.say_bytes({});
    attack.expect_failure(Errc::protocol, "malformed");
    EXPECT_FALSE(receive.poll());
    second.reach(IBV_WR_RDMA_WRITE, clear.address + 64, clear.remote_key, 64);
    for (int i = 0; i < 100; ++i) second.progress();
    EXPECT_EQ(second.last_failure(), IBV_WC_REM_ACCESS_ERR);
    attack.expect_memory_unchanged(0, 64);
  }
}

TEST_F(HostileData, MessagesBehindAGoodbye) {
  for (const bool busy : {false, true}) {
    DataAttack& attack = begin();
    Transfer& receive = attack.start(attack.victim.receive(attack.open.slice(0, 64)));
    if (busy) attack.start(attack.victim.send(attack.open.slice(0, kLarge)));
    attack.peer.say_control(wire::Farewell{});
    // Some of these messages arrive after the victim has closed its side.
    for (int i = 0; i < 30; ++i) {
      attack.peer.say({.kind = Kind::plain, .length = 3}, pattern(3, 1));
      attack.peer.say({.kind = Kind::finished, .id = 1, .length = kLarge});
      attack.peer.say_bytes({});
      attack.drive(10);
    }
    attack.drive_until([&] { return attack.victim.phase() != EndpointPhase::ready; });
    attack.drive_until([&] { return receive.done(); });
    attack.expect_ends();
    attack.expect_unharmed();
    attack.expect_memory_unchanged(0, 64);
  }
}

TEST_F(HostileData, SilenceAboutTheFence) {
  DataAttack& attack = begin();
  attack.peer.answers_fences = false;
  Transfer& send = attack.start(attack.victim.send(attack.open.slice(0, kLarge)));
  attack.peer.say_bytes({});
  attack.expect_failure(Errc::protocol, "malformed");
  EXPECT_FALSE(send.poll());
  EXPECT_FALSE(send.settled());
}

TEST_F(HostileData, AMessageOfOneByteIsTheLongest) {
  // The peer claims this limit for its NIC: transfers to it go in pieces of one byte, and end.
  DataAttack& attack = begin([](wire::EndpointOffer& offer) { offer.data.max_message_bytes = 1; });
  attack.start(attack.victim.receive(attack.open.slice(0, 4096)));
  attack.peer.say(offer_of(attack.peer, 4096));
  EXPECT_EQ(attack.peer.expect(Kind::finished).outcome, Outcome::taken);
  // The victim can send no message eagerly, so it offers even a short one.
  Transfer& send = attack.start(attack.victim.send(attack.open.slice(0, 100)));
  const MessageHeader offered = attack.peer.expect(Kind::plain_large);
  attack.peer.say({.kind = Kind::finished, .id = offered.id, .length = 100});
  attack.drive_until([&] { return send.done(); });
  EXPECT_TRUE(value(send.poll()));
  attack.expect_ends();
  attack.expect_unharmed();
  attack.expect_memory_unchanged(0, 4096);
}

}  // namespace
}  // namespace hbmwire::test

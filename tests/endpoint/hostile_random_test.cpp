// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>

#include "hbmwire/log.hpp"
#include "hbmwire/memory_key.hpp"
#include "hbmwire/settings.hpp"

#include "data_attack.hpp"
#include "endpoint/remote_region_state.hpp"
#include "registration/region_state.hpp"
#include "tests/library/emulated_hooks.hpp"

/// A random attacker: most of its messages would be valid at that point, and some would not.
namespace hbmwire::test {
namespace {

using wire::MessageHeader;
using Kind = MessageHeader::Kind;

// The environment variables HOSTILE_ROUNDS and HOSTILE_SEED override the number of rounds and the
// first seed, which is 1 by default, so that one failed round can be repeated.
constexpr unsigned kRounds = 60;
constexpr int kSteps = 80;
constexpr std::size_t kKnownHeaders = 64;

unsigned number_in_environment(const char* name, unsigned otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<unsigned>(std::stoul(text));
}

class Round {
 public:
  explicit Round(unsigned seed)
      : random_(seed),
        peer_key_(value(MemoryKey::pack(attack_.peer.memory.region()))),
        peer_memory_(value(attack_.victim.remote(value(RemoteKey::unpack(peer_key_.bytes()))))),
        victim_key_(value(MemoryKey::pack(attack_.open.region(),
                                          {.offset_bytes = DataAttack::kMemoryBytes / 2}))),
        staged_memory_(peer_memory_) {
    // As if the peer's NIC did not reach it: the victim asks the peer's process to move its bytes.
    // The library marks such memory by the inverted number of its connection.
    auto& forged = detail::RemoteRegionState::of(staged_memory_);
    forged.path = Path::staged;
    forged.connection = ~forged.connection;
  }

  void run() {
    for (int i = 0; i < kSteps && attack_.victim.phase() == EndpointPhase::ready; ++i) {
      if (one_in(3)) {
        victim_works();
      } else {
        peer_speaks();
      }
      attack_.drive(static_cast<int>(below(30)));
      for (const MessageHeader& header : attack_.peer.heard) remember(header);
      attack_.peer.heard.clear();
    }
    attack_.drive();
    attack_.expect_ends();
    attack_.expect_unharmed();
    // Receives and gets write only to the upper half.
    attack_.expect_memory_unchanged(DataAttack::kMemoryBytes / 2, DataAttack::kMemoryBytes / 2);
  }

 private:
  std::uint64_t below(std::uint64_t most) { return random_() % most; }

  bool one_in(std::uint64_t n) { return below(n) == 0; }

  template <class T>
  const T& one_of(const std::vector<T>& all) {
    return all[below(all.size())];
  }

  void remember(const MessageHeader& header) {
    if (known_.size() == kKnownHeaders) known_.erase(known_.begin());
    known_.push_back(header);
  }

  void start(Result<Transfer> transfer) {
    if (transfer) attack_.start(std::move(transfer));
  }

  void victim_works() {
    Endpoint& victim = attack_.victim;
    const std::uint64_t bytes = one_of(std::vector<std::uint64_t>{0, 1, 64, 5000, 20000, 30000});
    const std::uint64_t low = below(DataAttack::kMemoryBytes / 2 - bytes);
    const std::uint64_t high = DataAttack::kMemoryBytes / 2 + low;
    Memory& memory = one_in(2) ? attack_.device : attack_.closed;
    Memory& source = one_in(3) ? attack_.open : memory;
    switch (below(8)) {
      case 0:
      case 1:
        return start(victim.receive(memory.slice(high, bytes)));
      case 2:
      case 3:
        return start(victim.receive(memory.slice(high, bytes), TagMatch{below(4), below(2)}));
      case 4:
        return start(
            victim.send(source.slice(low, bytes),
                        {.level = one_in(2) ? CompletionLevel::sent : CompletionLevel::arrived}));
      case 5:
        return start(victim.send(source.slice(low, bytes), below(4)));
      case 6:
        return start(victim.receive_immediate(one_in(2) ? memory.slice(high, bytes) : Slice{}));
      default:
        if (one_in(3))
          return start(victim.put(source.slice(low, bytes), staged_memory_.slice(0, bytes)));
        if (one_in(3))
          return start(victim.get(memory.slice(high, bytes), staged_memory_.slice(0, bytes)));
        if (one_in(2))
          return start(victim.put(source.slice(low, bytes), peer_memory_.slice(0, bytes)));
        return start(victim.get(memory.slice(high, bytes), peer_memory_.slice(0, bytes)));
    }
  }

  std::uint32_t an_id() {
    if (!known_.empty() && !one_in(6)) {
      const MessageHeader& header = one_of(known_);
      // The answer to a clear names the id in its tag.
      return header.kind == Kind::clear ? static_cast<std::uint32_t>(header.tag) : header.id;
    }
    return one_in(2) ? static_cast<std::uint32_t>(below(20))
                     : static_cast<std::uint32_t>(random_());
  }

  std::uint64_t a_length() {
    if (!known_.empty() && one_in(2)) return one_of(known_).length;
    return one_in(8) ? random_()
                     : one_of(std::vector<std::uint64_t>{0, 1, 64, 5000, 8192, 20000, 30000});
  }

  /// The answer of an honest peer to one of the victim's latest messages, picked at random.
  std::optional<MessageHeader> an_answer() {
    if (known_.empty()) return std::nullopt;
    const std::size_t at = below(known_.size());
    const MessageHeader heard = known_[at];
    if (!one_in(8)) known_.erase(known_.begin() + static_cast<std::ptrdiff_t>(at));
    MessageHeader header{.id = heard.id, .length = heard.length};
    if (heard.kind == Kind::clear) {
      attack_.peer.reach(
          IBV_WR_RDMA_WRITE, heard.address, heard.remote_key,
          static_cast<std::uint32_t>(std::min<std::uint64_t>(heard.length, RawPeer::kPlace)));
      header.kind = Kind::written;
      // A clear names the id of its answer there.
      header.id = static_cast<std::uint32_t>(heard.tag);
    } else if (heard.asks()) {
      header.kind = Kind::finished;
      if (one_in(4)) header.outcome = MessageHeader::Outcome(1 + below(4));
    } else if (heard.large() && !heard.readable()) {
      header.kind = Kind::clear;
      header.tag = 1 + below(100);  // the id for its answer
      header.address = attack_.peer.memory.region().address();
      header.remote_key = own_key();
    } else if (heard.id != 0) {
      header.kind = Kind::finished;
    } else {
      return std::nullopt;
    }
    header.credits = 1;
    return header;
  }

  std::uint32_t own_key() {
    return state_of(attack_.peer.memory.region()).registrations.front().mr.get()->rkey;
  }

  MessageHeader a_message() {
    MessageHeader header;
    header.kind = static_cast<Kind>(1 + below(10));  // all kinds that there are
    header.credits = static_cast<std::uint16_t>(one_in(10) ? random_() : below(3));
    // Eager messages have an id only if their sender waits for `finished`.
    if (header.kind != Kind::credit && !(header.carries() && one_in(2))) header.id = an_id();
    if (header.tagged_kind()) header.tag = below(4);
    if (header.kind == Kind::clear) header.tag = one_in(8) ? random_() : 1 + below(20);
    // A put or get names the victim's key by its token.
    if (header.asks()) header.tag = one_in(3) ? 1 + random_() % 1000 : victim_key_.info().token;
    header.length = header.kind == Kind::credit ? 0 : a_length();
    if (header.large() && one_in(2)) header.flags = MessageHeader::kReadable;
    if (header.large() || header.kind == Kind::clear || header.asks()) {
      header.address =
          attack_.peer.memory.region().address() + (one_in(4) ? random_() % (8 << 20) : 0);
      header.remote_key = own_key() ^ (one_in(10) ? 0x10101U : 0U);
    }
    if (header.kind == Kind::finished) header.outcome = MessageHeader::Outcome(below(5));
    return header;
  }

  void peer_speaks() {
    RawPeer& peer = attack_.peer;
    if (one_in(30)) return peer.say_immediate(static_cast<std::uint32_t>(random_()));
    if (one_in(150)) return peer.say_control(wire::Farewell{});
    if (one_in(150)) return peer.say_control(wire::Fenced{});
    if (one_in(150)) return peer.say_control(wire::Fence{});
    if (one_in(60)) {
      return peer.reach(IBV_WR_RDMA_WRITE, attack_.closed.region().address() + below(4096),
                        static_cast<std::uint32_t>(random_()), 64);
    }
    MessageHeader header = a_message();
    if (one_in(2)) {
      if (const auto answer = an_answer()) header = *answer;
    }
    std::vector<std::byte> bytes(wire::kMessageHeaderBytes);
    wire::encode(header, bytes.data());
    if (header.carries() && header.length <= 8192) {
      const auto payload = pattern(header.length, 3);
      bytes.insert(bytes.end(), payload.begin(), payload.end());
    }
    if (header.asks()) {
      // The upper half of the victim's memory, and sometimes another place.
      const std::uint64_t at = attack_.open.region().address() + DataAttack::kMemoryBytes / 2;
      bytes.resize(bytes.size() + wire::kPlaceBytes);
      wire::encode_place(one_in(8) ? random_() : at + below(40000),
                         bytes.data() + wire::kMessageHeaderBytes);
    }
    if (one_in(40)) bytes[below(bytes.size())] ^= static_cast<std::byte>(1U << below(8));
    if (one_in(80)) bytes.resize(below(12000));
    peer.say_bytes(bytes);
  }

  DataAttack attack_;
  std::mt19937_64 random_;
  MemoryKey peer_key_;
  RemoteRegion peer_memory_;
  MemoryKey victim_key_;              // of the upper half of the victim's memory
  RemoteRegion staged_memory_;        // peer_memory_, which the victim takes for staged memory
  std::vector<MessageHeader> known_;  // the victim's latest messages
};

TEST(HostileByChance, EachTransferEndsAndNoOtherMemoryChanges) {
  set_log_sink([](LogLevel, std::string_view) {});
  const unsigned first = number_in_environment("HOSTILE_SEED", 1);
  const unsigned rounds = number_in_environment("HOSTILE_ROUNDS", kRounds);
  for (unsigned seed = first; seed < first + rounds && !HasFailure(); ++seed) {
    SCOPED_TRACE("HOSTILE_SEED=" + std::to_string(seed));
    {
      Round round(seed);
      round.run();
    }
    EXPECT_EQ(live_objects(), "");
  }
  set_log_sink({});
}

}  // namespace
}  // namespace hbmwire::test

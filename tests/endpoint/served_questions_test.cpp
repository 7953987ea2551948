// SPDX-License-Identifier: MIT
#include <algorithm>
#include <vector>

#include "hbmwire/memory_key.hpp"

#include "data_attack.hpp"
#include "internals.hpp"

/// A peer that asks this process to move bytes, with more requests in flight than the library
/// sends.
namespace hbmwire::test {
namespace {

using wire::MessageHeader;

/// Asks for bytes of the victim, into memory of the peer.
void ask(DataAttack& attack, const MemoryKey& victims, const MemoryKey& own, std::uint32_t id) {
  std::vector<std::byte> bytes(wire::kMessageHeaderBytes + wire::kPlaceBytes);
  wire::encode({.kind = MessageHeader::Kind::get,
                .id = id,
                .tag = victims.info().token,
                .length = 64,
                .address = own.info().address,
                .remote_key = own.info().nics.front().remote_key},
               bytes.data());
  wire::encode_place(victims.info().address, bytes.data() + wire::kMessageHeaderBytes);
  attack.peer.say_bytes(bytes);
}

TEST(ServedQuestions, AreCarriedOutFourAtATimeAndTheOthersKept) {
  constexpr std::uint32_t kQuestions = 8;
  DataAttack attack;
  const MemoryKey victims = value(MemoryKey::pack(attack.open.region()));
  const MemoryKey own = value(MemoryKey::pack(attack.peer.memory.region()));
  for (std::uint32_t id = 1; id <= kQuestions; ++id) ask(attack, victims, own, id);
  std::size_t least = internals::kPieces;
  const Deadline deadline = Deadline::after(10s);
  while (attack.peer.heard.size() < kQuestions && !deadline.passed()) {
    attack.worker.progress();
    least = std::min(least, internals::look_at(attack.worker).free_pieces);
    attack.peer.progress();
  }
  ASSERT_EQ(attack.peer.heard.size(), kQuestions);
  for (const MessageHeader& answer : attack.peer.heard) {
    EXPECT_EQ(answer.kind, MessageHeader::Kind::finished);
    EXPECT_EQ(answer.outcome, MessageHeader::Outcome::taken);
  }
  EXPECT_EQ(internals::kPieces - least, 4U) << "each has a piece";
  attack.expect_unharmed();
}

}  // namespace
}  // namespace hbmwire::test

// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "wire/group_messages.hpp"

namespace {

using namespace hbmwire;

void check(const Error& error) {
  if (error.code != Errc::protocol) std::abort();
}

template <class Message>
void check_again(const Message& message, std::span<const std::byte> bytes) {
  if (!std::ranges::equal(wire::encode(message), bytes)) std::abort();
}

/// A message that decodes must encode to the same bytes; others are errors of the protocol.
template <class Message>
void check(const Result<Message>& message, std::span<const std::byte> bytes) {
  if (!message) return check(message.error());
  check_again(*message, bytes);
}

/// Ranks and parts stay below the limits, whatever a message says.
void check_limits(const wire::GroupMessage& message) {
  std::size_t ranks = 0;
  std::size_t longest = 0;
  if (const auto* const all = std::get_if<wire::Joined>(&message)) {
    ranks = all->members.size();
    if (all->rank >= ranks) std::abort();
  }
  if (const auto* const missing = std::get_if<wire::Missing>(&message))
    ranks = missing->ranks.size();
  if (const auto* const gone = std::get_if<wire::Gone>(&message)) ranks = gone->ranks.size();
  if (const auto* const give = std::get_if<wire::Give>(&message)) longest = give->bytes.size();
  if (const auto* const given = std::get_if<wire::Given>(&message)) {
    ranks = given->bytes.size();
    for (const auto& part : given->bytes) longest = std::max(longest, part ? part->size() : 0);
  }
  if (ranks > wire::kMostRanks || longest > wire::kMostRankBytes) std::abort();
}

}  // namespace

/// Input: a byte that says what the rest is: 0, a message of a group; 1, a rank's hello to the
/// meeting point; 2, a rank's hello to another; 3, what begins a broadcast; 4, what ends one.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const auto rest = std::as_bytes(std::span(data, size)).subspan(1);
  switch (data[0] % 5) {
    case 0: {
      const auto message = wire::decode_group(rest);
      check(message, rest);
      if (message) check_limits(*message);
      return 0;
    }
    case 1:
      if (const auto hello = wire::decode_group_hello(rest)) {
        check_again(*hello, rest);
        if (hello->size == 0 || hello->size > wire::kMostRanks) std::abort();
      }
      return 0;
    case 2:
      if (const auto hello = wire::decode_peer_hello(rest)) check_again(*hello, rest);
      return 0;
    case 3:
      check(wire::decode_broadcast_offer(rest), rest);
      return 0;
    default:
      check(wire::decode_broadcast_end(rest), rest);
      return 0;
  }
}

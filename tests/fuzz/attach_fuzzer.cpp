// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "wire/attach_messages.hpp"

namespace {

using namespace hbmwire;

/// The result of reading a stream.
template <class Message>
struct Outcome {
  std::optional<Message> message;
  std::string_view error;
  std::size_t taken = 0;

  bool operator==(const Outcome&) const = default;
};

/// Reads `stream` in pieces of the lengths in `cuts`, cyclically; 0 means as much as there is room
/// for.
template <class Message>
Outcome<Message> assemble(std::span<const std::byte> stream, std::span<const std::uint8_t> cuts) {
  wire::AttachAssembly<Message> assembly;
  Outcome<Message> outcome;
  for (std::size_t turn = 0; outcome.taken < stream.size(); ++turn) {
    const auto room = assembly.room();
    if (room.empty()) std::abort();
    const std::size_t cut = cuts.empty() ? 0 : cuts[turn % cuts.size()];
    const std::size_t piece = cut == 0 ? room.size() : cut;
    const std::size_t count = std::min({room.size(), stream.size() - outcome.taken, piece});
    std::ranges::copy(stream.subspan(outcome.taken, count), room.begin());
    outcome.taken += count;
    const auto result = assembly.advance(count);
    if (!result) {
      if (result.error().code != Errc::protocol) std::abort();
      outcome.error = result.error().call;
      return outcome;
    }
    outcome.message = *result;
    if (outcome.message) return outcome;
  }
  return outcome;
}

/// The result must not depend on the cuts, and equal the sent message.
template <class Message>
void check(std::span<const std::byte> stream, std::span<const std::uint8_t> cuts) {
  const auto whole = assemble<Message>(stream, {});
  if (assemble<Message>(stream, cuts) != whole) std::abort();
  if (!whole.message) return;
  if (!std::ranges::equal(wire::encode(*whole.message), stream.first(whole.taken))) std::abort();
}

}  // namespace

/// Input: the end that reads (a byte; even means the exporter), the number of cuts (a byte, up to
/// 15), the cuts, and the stream.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span input(data, size);
  if (size < 2) return 0;
  const std::size_t count = std::min<std::size_t>(data[1] % 16, size - 2);
  const auto cuts = input.subspan(2, count);
  const auto stream = std::as_bytes(input.subspan(2 + count));
  if (data[0] % 2 == 0) {
    check<wire::AttachRequest>(stream, cuts);
  } else {
    check<wire::AttachReply>(stream, cuts);
  }
  return 0;
}

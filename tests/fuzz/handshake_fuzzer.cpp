// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "wire/handshake.hpp"

/// Input: a byte, and then the bytes from the peer. Bit 0 of the byte is the side, bit 1 is set if
/// there is a key, and the other bits say how the bytes are cut. Without the key the peer does not
/// get far, and the state and the output do not grow with the input.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hbmwire::wire;
  using Step = Handshake::Step;
  constexpr std::size_t kMostSaid = 2048;
  if (size < 1) return 0;
  const bool connecting = (data[0] & 1U) != 0;
  const bool keyed = (data[0] & 2U) != 0;
  const std::size_t cut = 1 + (data[0] >> 2U);
  const std::vector<std::byte> key(keyed ? 32 : 0, std::byte{7});
  auto handshake = Handshake::create(
      connecting ? Handshake::Side::connecting : Handshake::Side::accepting, "peer", key);
  if (!handshake) std::abort();
  EndpointOffer own;
  own.hello.resize(kMaxHelloBytes);
  if (connecting) handshake->offer(own);
  auto rest = std::as_bytes(std::span(data, size)).subspan(1);
  std::size_t said = 0;
  while (!rest.empty() && handshake->wanted() != 0) {
    const std::size_t part = std::min({cut, handshake->wanted(), rest.size()});
    handshake->take(rest.first(part));
    rest = rest.subspan(part);
    if (handshake->step() == Step::has_offer) {
      if (keyed) std::abort();
      const auto bytes = encode(handshake->theirs());
      const auto again = decode_offer(bytes);
      if (!again || !(*again == handshake->theirs())) std::abort();
      if (connecting) {
        handshake->confirm();
      } else {
        handshake->offer(own);
      }
    }
    said += handshake->to_send().size();
    handshake->sent(handshake->to_send().size());
  }
  if (said > kMostSaid || (keyed && handshake->step() == Step::done)) std::abort();
  handshake->end();
  if (handshake->step() != Step::done && handshake->step() != Step::refused) std::abort();
  return 0;
}

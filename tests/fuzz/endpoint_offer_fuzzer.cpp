// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "wire/invitation.hpp"

/// Input: an even byte and an offer, or an odd one and an invitation. A decoded input must
/// encode to the same bytes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hbmwire::wire;
  if (size < 1) return 0;
  const auto rest = std::as_bytes(std::span(data, size)).subspan(1);
  if (data[0] % 2 == 0) {
    const auto offer = decode_offer(rest);
    if (offer && !std::ranges::equal(encode(*offer), rest)) std::abort();
    return 0;
  }
  const auto offer = decode_invitation(rest, {});
  if (!offer) return 0;
  Nonce nonce{};
  std::copy_n(data + 13, nonce.size(), nonce.begin());  // after magic, version and flags
  if (!std::ranges::equal(encode_invitation(*offer, nonce, {}), rest)) std::abort();
  return 0;
}

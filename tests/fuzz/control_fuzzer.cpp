// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "wire/control_messages.hpp"
#include "wire/message_header.hpp"

/// Input: an even byte and a message of the control lane, or an odd one and a message of the data
/// lane. Messages that decode must encode to the same bytes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hbmwire::wire;
  if (size < 1) return 0;
  const auto rest = std::as_bytes(std::span(data, size)).subspan(1);
  if (data[0] % 2 == 0) {
    const auto message = decode_control(rest);
    if (!message) return 0;
    const auto again = encode(*message);
    if (!std::ranges::equal(again, rest) || again.size() > kMaxControlBytes) std::abort();
    return 0;
  }
  const auto header = decode_header(rest);
  if (!header) return 0;
  std::array<std::byte, kMessageHeaderBytes> again{};
  encode(*header, again.data());
  if (!std::ranges::equal(again, rest.first(again.size()))) std::abort();
  return 0;
}

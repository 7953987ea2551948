// SPDX-License-Identifier: MIT
#include <cstdint>
#include <cstdlib>
#include <span>

#include "tools/wire/messages.hpp"

/// Input: a message's type (two bytes) and payload. Messages that decode must encode to the same
/// bytes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hbmwire::tools::wire;
  if (size < 2) return 0;
  const auto type = static_cast<std::uint16_t>(data[0] << 8 | data[1]);
  const auto payload = std::as_bytes(std::span(data, size)).subspan(2);
  const auto message = decode(type, payload);
  if (!message) return 0;
  const auto frame = encode(*message);
  const auto body = std::span(frame).subspan(kFrameHeaderBytes);
  if (body.size() != payload.size()) std::abort();
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i] != payload[i]) std::abort();
  }
  return 0;
}

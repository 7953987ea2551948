// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "wire/message_header.hpp"

/// Input: all bytes that a receive of the data lane got. A decoded header encodes to the same
/// bytes, and does not claim more bytes than arrived.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hbmwire::wire;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto header = decode_header(bytes);
  if (!header) return 0;
  std::array<std::byte, kMessageHeaderBytes> again{};
  encode(*header, again.data());
  if (!std::equal(again.begin(), again.end(), bytes.begin())) std::abort();
  if (header->asks() && (size != kMessageHeaderBytes + kPlaceBytes || header->tag == 0))
    std::abort();
  if (header->carries() && header->length != size - kMessageHeaderBytes) std::abort();
  if (header->address + header->length < header->address) std::abort();
  return 0;
}

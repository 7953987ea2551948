// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "wire/memory_key.hpp"

namespace {

// A decoded key has values that a key may have, and encodes to the same bytes.
void check(std::span<const std::byte> bytes) {
  namespace wire = hbmwire::wire;
  const auto key = wire::decode_memory_key(bytes);
  if (!key) return;
  if (!wire::is_sane(*key)) std::abort();
  const auto again = wire::encode(*key);
  if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
}

}  // namespace

/// Input: a memory key without its checksum, which a fuzzer would not find by chance. Also tries
/// the same bytes as a complete key.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  check(bytes);
  std::vector<std::byte> sealed(bytes.begin(), bytes.end());
  const std::uint32_t checksum = hbmwire::wire::crc32c(bytes);
  for (unsigned shift = 32; shift != 0; shift -= 8)
    sealed.push_back(static_cast<std::byte>(checksum >> (shift - 8) & 0xffU));
  check(sealed);
  return 0;
}

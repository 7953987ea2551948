// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "tools/wire/messages.hpp"

namespace hbmwire::tools {

using DigestValue = std::array<std::uint8_t, wire::kDigestBytes>;

/// Computes BLAKE2b-512, the digest that b2sum(1) prints.
class Digest {
 public:
  Digest();
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;
  Digest(Digest&&) = delete;
  Digest& operator=(Digest&&) = delete;

  void update(std::span<const std::byte> bytes) noexcept;

  /// The digest of all bytes that were added. To be called once; the object cannot be used
  /// afterwards.
  DigestValue finish() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Lower-case hexadecimal.
std::string digest_text(const DigestValue& digest);

}  // namespace hbmwire::tools

// SPDX-License-Identifier: MIT
#pragma once

#include <sodium.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "hbmwire/error.hpp"

/// Two ends prove to each other that they know the same key (docs/endpoint-protocol.md), with
/// libsodium: a keyed BLAKE2b hash of all that both have sent, including both nonces.
namespace hbmwire::wire {

inline constexpr std::size_t kProofBytes = 32;
inline constexpr std::size_t kMinSharedKeyBytes = 16;  ///< bytes; shorter keys could be guessed
inline constexpr std::size_t kMaxSharedKeyBytes = 4096;

using Nonce = std::array<std::uint8_t, 32>;
using Proof = std::array<std::uint8_t, kProofBytes>;

/// 32 bytes that are unique and cannot be predicted. Errors: Stage::configure.
[[nodiscard]] Result<Nonce> make_nonce();

/// Compares two proofs, in a time that does not depend on where they differ.
[[nodiscard]] bool equal(const Proof& a, const Proof& b) noexcept;

/// The hash, under the key, of all that both sides have sent, in one order. Without a key its
/// proofs are mere checksums: they show that both sides saw the same conversation, but not who they
/// are.
class Transcript {
 public:
  /// Keeps no copy of the key, only a derived key. Call make_nonce() first, which initialises
  /// libsodium.
  explicit Transcript(std::span<const std::byte> pre_shared_key) noexcept;
  Transcript(const Transcript&) = default;
  Transcript& operator=(const Transcript&) = default;
  ~Transcript();

  void add(std::span<const std::byte> said) noexcept;

  /// Proves that its sender has the key and saw the same conversation. `what` (at most 32
  /// characters) makes the proofs of the two sides different, so that a side's own proof cannot be
  /// sent back to it.
  [[nodiscard]] Proof proof(std::string_view what) const noexcept;

 private:
  crypto_generichash_state state_{};
};

/// Errors: Errc::invalid_argument (a key has 16 to 4096 bytes, or is empty).
[[nodiscard]] Result<void> check_key(std::span<const std::byte> pre_shared_key);

}  // namespace hbmwire::wire

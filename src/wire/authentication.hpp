// SPDX-License-Identifier: MIT
#pragma once

#include <sodium.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "hbmwire/error.hpp"

/// How two ends prove to each other that they know the same key (docs/endpoint-protocol.md), by
/// libsodium: keyed BLAKE2b over all that was said, both sides' nonces included.
namespace hbmwire::wire {

inline constexpr std::size_t kProofBytes = 32;
inline constexpr std::size_t kMinSharedKeyBytes = 16;  ///< fewer are guessed
inline constexpr std::size_t kMaxSharedKeyBytes = 4096;

using Nonce = std::array<std::uint8_t, 32>;
using Proof = std::array<std::uint8_t, kProofBytes>;

/// 32 bytes that nobody else has, and nobody can foresee. Errors: Stage::configure.
[[nodiscard]] Result<Nonce> make_nonce();

/// In a time that says nothing about where they differ.
[[nodiscard]] bool equal(const Proof& a, const Proof& b) noexcept;

/// All that both sides have said, in one order, under their key. Without one its proofs are a
/// checksum: they show that both speak of the same conversation, and nothing about who speaks.
class Transcript {
 public:
  /// Keeps no copy of the key, only what was derived from it. make_nonce() was called before.
  explicit Transcript(std::span<const std::byte> pre_shared_key) noexcept;
  Transcript(const Transcript&) = default;
  Transcript& operator=(const Transcript&) = default;
  ~Transcript();

  void add(std::span<const std::byte> said) noexcept;

  /// That whoever made it has the key and heard the same. `what` (at most 32 characters) tells
  /// proofs apart, so that nobody's can be given back to him as the peer's.
  [[nodiscard]] Proof proof(std::string_view what) const noexcept;

 private:
  crypto_generichash_state state_{};
};

/// Errors: Errc::invalid_argument (a key has 16 to 4096 bytes, or none).
[[nodiscard]] Result<void> check_key(std::span<const std::byte> pre_shared_key);

}  // namespace hbmwire::wire

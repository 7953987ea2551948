// SPDX-License-Identifier: MIT
#include "wire/authentication.hpp"

#include <algorithm>

namespace hbmwire::wire {

namespace {

// The same pre-shared key gives another derived key for another purpose or version.
constexpr std::string_view kPurpose = "hbmwire endpoint, version 1";
static_assert(kPurpose.size() >= crypto_generichash_KEYBYTES_MIN &&
              kPurpose.size() <= crypto_generichash_KEYBYTES_MAX);
static_assert(kProofBytes == crypto_generichash_BYTES && sizeof(Nonce) >= 16);
constexpr std::size_t kLabelBytes = 32;

const unsigned char* raw(const std::byte* bytes) noexcept {
  return reinterpret_cast<const unsigned char*>(bytes);
}

}  // namespace

Result<Nonce> make_nonce() {
  // May be called repeatedly, from any thread (libsodium's manual, "Usage").
  if (sodium_init() < 0) {
    return tl::make_unexpected(
        make_error(Errc::system, Stage::configure, "libsodium finds no source of random numbers"));
  }
  Nonce nonce;
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

bool equal(const Proof& a, const Proof& b) noexcept {
  return sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

Transcript::Transcript(std::span<const std::byte> pre_shared_key) noexcept {
  // Hashes the key first, so that keys of any length count completely: BLAKE2b itself takes a key
  // of at most 64 bytes.
  std::array<unsigned char, crypto_generichash_KEYBYTES> derived{};
  crypto_generichash(derived.data(), derived.size(), raw(pre_shared_key.data()),
                     pre_shared_key.size(), reinterpret_cast<const unsigned char*>(kPurpose.data()),
                     kPurpose.size());
  crypto_generichash_init(&state_, derived.data(), derived.size(), kProofBytes);
  sodium_memzero(derived.data(), derived.size());
}

Transcript::~Transcript() { sodium_memzero(&state_, sizeof state_); }

void Transcript::add(std::span<const std::byte> said) noexcept {
  crypto_generichash_update(&state_, raw(said.data()), said.size());
}

Proof Transcript::proof(std::string_view what) const noexcept {
  crypto_generichash_state end = state_;
  std::array<unsigned char, kLabelBytes> label{};
  std::copy_n(what.begin(), std::min(what.size(), label.size()), label.begin());
  crypto_generichash_update(&end, label.data(), label.size());
  Proof proof{};
  crypto_generichash_final(&end, proof.data(), proof.size());
  sodium_memzero(&end, sizeof end);
  return proof;
}

Result<void> check_key(std::span<const std::byte> pre_shared_key) {
  const std::size_t size = pre_shared_key.size();
  if (size == 0 || (size >= kMinSharedKeyBytes && size <= kMaxSharedKeyBytes)) return {};
  return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure,
                                        "a pre-shared key has 16 to 4096 bytes", {},
                                        Hint::pre_shared_key));
}

}  // namespace hbmwire::wire

// SPDX-License-Identifier: MIT
#include "tools/common/digest.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sodium.h>

namespace hbmwire::tools {

static_assert(wire::kDigestBytes == crypto_generichash_BYTES_MAX);

struct Digest::State {
  crypto_generichash_state hash;
};

// None of the calls below can fail with these lengths (libsodium's manual, "Generic hashing");
// sodium_init() only chooses the fastest implementation.
Digest::Digest() : state_(std::make_unique<State>()) {
  [[maybe_unused]] const int ready = sodium_init();
  crypto_generichash_init(&state_->hash, nullptr, 0, wire::kDigestBytes);
}

Digest::~Digest() = default;

void Digest::update(std::span<const std::byte> bytes) noexcept {
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  crypto_generichash_update(&state_->hash, data, bytes.size());
}

DigestValue Digest::finish() noexcept {
  DigestValue value{};
  crypto_generichash_final(&state_->hash, value.data(), value.size());
  return value;
}

std::string digest_text(const DigestValue& digest) {
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

}  // namespace hbmwire::tools

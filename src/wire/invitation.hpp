// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "wire/authentication.hpp"
#include "wire/endpoint_offer.hpp"

/// Offers that the application carries (docs/endpoint-protocol.md), and the proofs by which two
/// ends that were connected with them recognize each other.
namespace hbmwire::wire {

inline constexpr std::size_t kMaxInvitationBytes = 512 + kMaxHelloBytes;

/// An offer with a nonce and a checksum; with a key, a proof replaces the checksum.
[[nodiscard]] std::vector<std::byte> encode_invitation(const EndpointOffer& offer,
                                                       const Nonce& nonce,
                                                       std::span<const std::byte> pre_shared_key);

/// Errors (Stage::connect): Errc::protocol (not a complete invitation), Errc::permission_denied
/// (another key, or only one side has a key).
[[nodiscard]] Result<EndpointOffer> decode_invitation(std::span<const std::byte> bytes,
                                                      std::span<const std::byte> pre_shared_key);

/// The first messages between the two ends, over the lanes that were just connected.
struct Hails {
  bool first = false;  ///< this end sends first; exactly one of the two does
  Proof own{};
  Proof theirs{};
};

/// For two invitations, which must differ.
[[nodiscard]] Hails make_hails(std::span<const std::byte> own, std::span<const std::byte> theirs,
                               std::span<const std::byte> pre_shared_key);

}  // namespace hbmwire::wire

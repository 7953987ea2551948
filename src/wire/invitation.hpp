// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "wire/authentication.hpp"
#include "wire/endpoint_offer.hpp"

/// Offers that the application carries (docs/endpoint-protocol.md), and by what two ends that were
/// connected by them know each other.
namespace hbmwire::wire {

inline constexpr std::size_t kMaxInvitationBytes = 512 + kMaxHelloBytes;

/// An offer with a nonce, a checksum of it, and with a key its proof.
[[nodiscard]] std::vector<std::byte> encode_invitation(const EndpointOffer& offer,
                                                       const Nonce& nonce,
                                                       std::span<const std::byte> pre_shared_key);

/// Errors: Stage::connect: Errc::protocol (not an invitation, or not all of one),
/// permission_denied (another key, or one side has none).
[[nodiscard]] Result<EndpointOffer> decode_invitation(std::span<const std::byte> bytes,
                                                      std::span<const std::byte> pre_shared_key);

/// What two ends say to each other first, over what they have been wired up to.
struct Hails {
  bool first = false;  ///< this end speaks first: exactly one of the two does
  Proof own{};
  Proof theirs{};
};

/// Of two invitations, which are not the same.
[[nodiscard]] Hails make_hails(std::span<const std::byte> own, std::span<const std::byte> theirs,
                               std::span<const std::byte> pre_shared_key);

}  // namespace hbmwire::wire

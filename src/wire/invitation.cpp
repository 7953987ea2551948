// SPDX-License-Identifier: MIT
#include "wire/invitation.hpp"

#include <algorithm>
#include <array>

#include "wire/codec.hpp"

namespace hbmwire::wire {

namespace {

constexpr std::array<std::uint8_t, 8> kInvitationMagic{'h', 'b', 'm', 'w', '-', 'i', 'n', '\n'};
constexpr std::uint16_t kKeyed = 1;
constexpr std::size_t kHeadBytes = 44;  // magic, version, flags, nonce
static_assert(kHeadBytes + kMaxOfferBytes + kProofBytes <= kMaxInvitationBytes);

Proof proof_of(std::span<const std::byte> said, std::span<const std::byte> key) {
  Transcript transcript(key);
  transcript.add(said);
  return transcript.proof("invitation");
}

tl::unexpected<Error> refuse_invitation(Errc code, const char* why, Hint hint) {
  return tl::make_unexpected(make_error(code, Stage::connect, why, {}, hint));
}

}  // namespace

std::vector<std::byte> encode_invitation(const EndpointOffer& offer, const Nonce& nonce,
                                         std::span<const std::byte> pre_shared_key) {
  Writer out;
  out.bytes(kInvitationMagic);
  out.integer(kEndpointVersion);
  out.integer(static_cast<std::uint16_t>(pre_shared_key.empty() ? 0 : kKeyed));
  out.bytes(nonce);
  std::vector<std::byte> bytes = out.take();
  const auto body = encode(offer);
  bytes.insert(bytes.end(), body.begin(), body.end());
  const Proof proof = proof_of(bytes, pre_shared_key);
  const auto tail = std::as_bytes(std::span(proof));
  bytes.insert(bytes.end(), tail.begin(), tail.end());
  return bytes;
}

Result<EndpointOffer> decode_invitation(std::span<const std::byte> bytes,
                                        std::span<const std::byte> pre_shared_key) {
  Reader in(bytes.first(std::min(bytes.size(), kHeadBytes)));
  const bool ours = in.bytes<kInvitationMagic.size()>() == kInvitationMagic;
  const auto version = in.integer<std::uint16_t>();
  const auto flags = in.integer<std::uint16_t>();
  if (!ours || bytes.size() < kHeadBytes + kProofBytes || bytes.size() > kMaxInvitationBytes)
    return refuse_invitation(Errc::protocol, "the bytes are no invitation", Hint::invitation);
  if (version != kEndpointVersion) {
    return tl::make_unexpected(
        version_error(Stage::connect, kOtherVersion, {}, version, kEndpointVersion));
  }
  if (((flags & kKeyed) != 0) == pre_shared_key.empty()) {
    return refuse_invitation(Errc::permission_denied,
                             pre_shared_key.empty() ? "the peer asks for a pre-shared key"
                                                    : "the peer has no pre-shared key",
                             Hint::pre_shared_key);
  }
  const auto said = bytes.first(bytes.size() - kProofBytes);
  Proof theirs{};
  std::ranges::transform(bytes.subspan(said.size()), theirs.begin(),
                         [](std::byte byte) { return std::to_integer<std::uint8_t>(byte); });
  if (!equal(theirs, proof_of(said, pre_shared_key))) {
    return pre_shared_key.empty()
               ? refuse_invitation(Errc::protocol, "the invitation was damaged on its way",
                                   Hint::invitation)
               : refuse_invitation(Errc::permission_denied, "the peer has another pre-shared key",
                                   Hint::pre_shared_key);
  }
  return decode_offer(said.subspan(kHeadBytes));
}

Hails make_hails(std::span<const std::byte> own, std::span<const std::byte> theirs,
                 std::span<const std::byte> pre_shared_key) {
  Hails hails;
  hails.first = std::ranges::lexicographical_compare(own, theirs);
  Transcript transcript(pre_shared_key);
  transcript.add(hails.first ? own : theirs);
  transcript.add(hails.first ? theirs : own);
  hails.own = transcript.proof(hails.first ? "first hail" : "second hail");
  hails.theirs = transcript.proof(hails.first ? "second hail" : "first hail");
  return hails;
}

}  // namespace hbmwire::wire

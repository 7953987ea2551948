// SPDX-License-Identifier: MIT
#include "wire/handshake.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "wire/codec.hpp"

namespace hbmwire::wire {

namespace {

// Eight bytes that no other protocol begins with, not even that of our own tools.
constexpr std::array<std::uint8_t, 8> kHandshakeMagic{'h', 'b', 'm', 'w', '-', 'e', 'p', '\n'};
constexpr std::size_t kGreetingBytes = 48;  // magic, version, flags, whereabouts, nonce
constexpr std::uint16_t kKeyedFlag = 1;     // flag: this end has a pre-shared key

constexpr const char* kProofOfConnectingOffer = "connecting offer";
constexpr const char* kProofOfAcceptingOffer = "accepting offer";
constexpr const char* kProofOfConnectingReady = "connecting ready";
constexpr const char* kProofOfAcceptingReady = "accepting ready";

// The low bits of whereabouts() that tell the processes of a node apart. The others stand for the
// node.
constexpr unsigned kWhichProcessBits = 12;

bool are_neighbours(std::uint32_t ours, std::uint32_t theirs) noexcept {
  return ours != 0 && theirs != 0 && ours != theirs &&
         ours >> kWhichProcessBits == theirs >> kWhichProcessBits;
}

std::vector<std::byte> make_greeting(bool keyed, std::uint32_t whereabouts, const Nonce& nonce) {
  Writer out;
  out.bytes(kHandshakeMagic);
  out.integer(kEndpointVersion);
  out.integer(static_cast<std::uint16_t>(keyed ? kKeyedFlag : 0));
  out.integer(whereabouts);
  out.bytes(nonce);
  return out.take();
}

/// Translates a peer's refusal for this end's user.
Error refusal_error(Refusal why, std::string_view peer) {
  const auto error = [&](Errc code, const char* sentence, Hint hint) {
    return make_error(code, Stage::connect, sentence, peer, hint);
  };
  switch (why) {
    case Refusal::malformed:
      return error(Errc::protocol, "the peer did not understand this end", Hint::other_version);
    case Refusal::version:
      // Only a peer that breaks the protocol sends this: on_greeting() has compared the versions
      // before any refusal is read.
      return error(Errc::protocol, kOtherVersion, Hint::other_version);
    case Refusal::key_missing:
      return error(Errc::permission_denied, "the peer asks for a pre-shared key",
                   Hint::pre_shared_key);
    case Refusal::key_unexpected:
      return error(Errc::permission_denied, "the peer has no pre-shared key", Hint::pre_shared_key);
    case Refusal::key_wrong:
      return error(Errc::permission_denied, "the peer has another pre-shared key",
                   Hint::pre_shared_key);
    case Refusal::no_room:
      return error(Errc::exhausted, "the peer has no room for another endpoint", Hint::peer_full);
    case Refusal::no_descriptors:
      return error(Errc::exhausted, "the peer has no descriptors left for another endpoint",
                   Hint::peer_full);
    case Refusal::not_reachable:
      return error(Errc::invalid_argument, "the peer can't wire its NIC up with this end's",
                   Hint::qp_attributes);
    case Refusal::other_link:
      return error(Errc::invalid_argument,
                   "one side's port is Ethernet (RoCE), the other's InfiniBand",
                   Hint::qp_attributes);
    case Refusal::path_policy:
      return error(Errc::permission_denied,
                   "the peer's path policy excludes tcp, by which memory would go, since one end "
                   "has no RDMA device",
                   Hint::path_policy);
    case Refusal::too_slow:
      return error(Errc::timed_out, "this end took too long to shake hands", Hint::peer_slow);
  }
  return error(Errc::peer_failed, "the peer refused for a reason unknown to this version",
               Hint::other_version);
}

}  // namespace

std::uint32_t whereabouts(const NodeId& node, std::uint64_t incarnation) noexcept {
  // The node fills the high bits, the process the low ones (kWhichProcessBits). Bit 0 is always
  // set: the result must not be 0.
  std::uint32_t folded = 0;
  for (std::size_t i = 0; i < node.size(); ++i)
    folded ^= std::uint32_t{node.at(i)} << (8U * (i % sizeof folded));
  const auto process = static_cast<std::uint32_t>(incarnation ^ incarnation >> 32U);
  return folded >> kWhichProcessBits << kWhichProcessBits |
         (process & ((1U << kWhichProcessBits) - 1)) | 1U;
}

Result<Handshake> Handshake::create(Side side, std::string peer,
                                    std::span<const std::byte> pre_shared_key,
                                    std::uint32_t whereabouts) {
  HBMWIRE_TRY(check_key(pre_shared_key));
  HBMWIRE_TRY_ASSIGN(const Nonce nonce, make_nonce());
  return Handshake(side, std::move(peer), pre_shared_key, nonce, whereabouts);
}

Handshake::Handshake(Side side, std::string peer, std::span<const std::byte> pre_shared_key,
                     Nonce nonce, std::uint32_t whereabouts)
    : transcript_(pre_shared_key),
      side_(side),
      keyed_(!pre_shared_key.empty()),
      whereabouts_(whereabouts),
      peer_(std::move(peer)),
      nonce_(nonce) {
  // A listener sends nothing until the peer has greeted like an endpoint.
  if (connecting()) greet();
}

void Handshake::say(std::span<const std::byte> bytes) {
  out_.insert(out_.end(), bytes.begin(), bytes.end());
}

void Handshake::greet() {
  const auto greeting = make_greeting(keyed_, whereabouts_, nonce_);
  transcript_.add(greeting);
  say(greeting);
  greeted_ = true;
}

void Handshake::say(Frame type, std::span<const std::byte> payload) {
  const bool proves = keyed_ && type != Frame::refusal;
  Writer header;
  header.integer(static_cast<std::uint16_t>(payload.size() + (proves ? kProofBytes : 0)));
  header.integer(static_cast<std::uint16_t>(type));
  std::vector<std::byte> frame = header.take();
  frame.insert(frame.end(), payload.begin(), payload.end());
  say(frame);  // the other say(), which queues bytes
  transcript_.add(frame);
  if (!proves) return;
  const char* const what = type == Frame::offer
                               ? (connecting() ? kProofOfConnectingOffer : kProofOfAcceptingOffer)
                               : (connecting() ? kProofOfConnectingReady : kProofOfAcceptingReady);
  const Proof proof = transcript_.proof(what);
  say(std::as_bytes(std::span(proof)));
}

void Handshake::offer(const EndpointOffer& own) {
  own_ = own;
  // Not due yet: the connecting side keeps its offer until it knows with whom it speaks, and
  // on_greeting() sends it then.
  if (step_ != (connecting() ? Step::has_greeting : Step::has_offer)) return;
  say(Frame::offer, encode(own));
  step_ = Step::talking;
}

void Handshake::confirm() {
  if (!connecting() || step_ != Step::has_offer) return;
  say(Frame::ready, {});
  step_ = Step::talking;
}

void Handshake::refuse(Refusal why, const Error& error) {
  if (step_ == Step::refused || step_ == Step::done) return;
  step_ = Step::refused;
  error_ = error;
  if (!greeted_) return;
  Writer payload;
  payload.integer(static_cast<std::uint16_t>(why));
  say(Frame::refusal, payload.take());
}

void Handshake::fail(Refusal why, Errc code, const char* sentence, Hint hint) {
  refuse(why, make_error(code, Stage::connect, sentence, peer_, hint));
}

std::size_t Handshake::whole() const noexcept {
  switch (expected_) {
    case Expected::greeting:
      return kGreetingBytes;
    case Expected::header:
      return kFrameHeaderBytes;
    case Expected::payload:
      break;
  }
  // `in_` keeps the header until the payload is complete.
  Reader header(std::span<const std::byte>(in_).first(kFrameHeaderBytes));
  return kFrameHeaderBytes + header.integer<std::uint16_t>();
}

std::size_t Handshake::wanted() const noexcept {
  return step_ == Step::talking ? whole() - in_.size() : 0;
}

void Handshake::take(std::span<const std::byte> bytes) {
  while (!bytes.empty() && step_ == Step::talking) {
    const auto part = bytes.first(std::min(bytes.size(), wanted()));
    in_.insert(in_.end(), part.begin(), part.end());
    bytes = bytes.subspan(part.size());
    if (expected_ == Expected::greeting) on_byte_of_greeting();
    // A loop, since the next part may be empty and therefore complete at once: the payload of
    // `ready` is, if there is no key.
    while (step_ == Step::talking && in_.size() == whole()) {
      if (expected_ == Expected::greeting) {
        on_greeting();
      } else if (expected_ == Expected::header) {
        on_header();
      } else {
        on_frame();
        in_.clear();
        expected_ = Expected::header;
      }
    }
  }
}

/// Looks at the bytes of the greeting so far, after each piece: rejects another protocol at its
/// first wrong byte.
void Handshake::on_byte_of_greeting() {
  const std::size_t count = std::min(in_.size(), kHandshakeMagic.size());
  for (std::size_t i = 0; i < count; ++i) {
    if (std::to_integer<std::uint8_t>(in_[i]) == kHandshakeMagic.at(i)) continue;
    fail(Refusal::malformed, Errc::protocol, "the peer speaks another protocol", Hint::not_hbmwire);
    return;
  }
}

void Handshake::on_greeting() {
  Reader in(in_);
  in.bytes<kHandshakeMagic.size()>();
  const auto version = in.integer<std::uint16_t>();
  const auto flags = in.integer<std::uint16_t>();
  transcript_.add(in_);
  // Between processes of one node the queue pairs are made late (is_late()).
  late_ = are_neighbours(whereabouts_, in.integer<std::uint32_t>());
  const bool own_again = in.bytes<std::tuple_size_v<Nonce>>() == nonce_;
  in_.clear();
  expected_ = Expected::header;
  if (!greeted_) greet();
  if (version != kEndpointVersion) {
    refuse(Refusal::version,
           version_error(Stage::connect, kOtherVersion, peer_, version, kEndpointVersion));
  } else if (own_again) {
    fail(Refusal::malformed, Errc::protocol, "the peer gave this end's own words back",
         Hint::not_hbmwire);
  } else if (keyed_ && (flags & kKeyedFlag) == 0) {
    fail(Refusal::key_missing, Errc::permission_denied, "the peer has no pre-shared key",
         Hint::pre_shared_key);
  } else if (!keyed_ && (flags & kKeyedFlag) != 0) {
    fail(Refusal::key_unexpected, Errc::permission_denied, "the peer asks for a pre-shared key",
         Hint::pre_shared_key);
  } else if (connecting()) {
    step_ = Step::has_greeting;
    if (own_) offer(EndpointOffer(*own_));  // a copy, since offer() assigns to own_
  }
}

void Handshake::on_header() {
  Reader header(in_);
  const std::size_t length = header.integer<std::uint16_t>();
  const auto type = header.integer<std::uint16_t>();
  // The lengths that are allowed: a refusal has a number and no proof, `ready` has only its proof,
  // and an offer has bytes of its own before the proof.
  const auto due = static_cast<std::uint16_t>(theirs_ ? Frame::ready : Frame::offer);
  const bool refusal = type == static_cast<std::uint16_t>(Frame::refusal);
  const std::size_t least = refusal ? sizeof(std::uint16_t) : proof_bytes();
  const std::size_t most = refusal   ? sizeof(std::uint16_t)
                           : theirs_ ? proof_bytes()
                                     : kMaxOfferBytes + proof_bytes();
  if ((type != due && !refusal) || length < least || length > most) {
    fail(Refusal::malformed, Errc::protocol, "the peer sent a message out of turn",
         Hint::other_version);
    return;
  }
  expected_ = Expected::payload;
}

void Handshake::on_frame() {
  const auto frame = std::span<const std::byte>(in_);
  Reader header(frame.first(kFrameHeaderBytes));
  header.integer<std::uint16_t>();  // the length, which on_header() has checked
  const auto type = static_cast<Frame>(header.integer<std::uint16_t>());
  if (type == Frame::refusal) {
    on_refusal(frame.subspan(kFrameHeaderBytes));
    return;
  }
  const auto said = frame.first(frame.size() - proof_bytes());
  transcript_.add(said);
  const bool of_offer = type == Frame::offer;
  const char* const what = connecting()
                               ? (of_offer ? kProofOfAcceptingOffer : kProofOfAcceptingReady)
                               : (of_offer ? kProofOfConnectingOffer : kProofOfConnectingReady);
  if (!proven(frame.subspan(said.size()), what)) {
    fail(Refusal::key_wrong, Errc::permission_denied, "the peer has another pre-shared key",
         Hint::pre_shared_key);
    return;
  }
  if (of_offer) {
    on_offer(said.subspan(kFrameHeaderBytes));
  } else {
    on_ready();
  }
}

bool Handshake::proven(std::span<const std::byte> proof, const char* what) const noexcept {
  if (!keyed_) return true;
  Proof theirs{};
  std::ranges::transform(proof, theirs.begin(),
                         [](std::byte byte) { return std::to_integer<std::uint8_t>(byte); });
  return equal(theirs, transcript_.proof(what));
}

void Handshake::on_offer(std::span<const std::byte> payload) {
  const auto offer = decode_offer(payload);
  if (!offer) {
    fail(Refusal::malformed, offer.error().code, offer.error().call, offer.error().hint);
    return;
  }
  if (offer->is_late() != late_) {
    fail(Refusal::malformed, Errc::protocol, "the peer's offer does not fit its greeting",
         Hint::other_version);
    return;
  }
  theirs_ = *offer;
  step_ = Step::has_offer;
}

void Handshake::on_ready() {
  if (!connecting()) say(Frame::ready, {});
  step_ = Step::done;
}

void Handshake::on_refusal(std::span<const std::byte> payload) {
  Reader in(payload);
  error_ = refusal_error(static_cast<Refusal>(in.integer<std::uint16_t>()), peer_);
  step_ = Step::refused;
  // The peer reads nothing more, so the rest is not sent.
  out_.clear();
  sent_ = 0;
}

void Handshake::end() {
  if (step_ == Step::done || step_ == Step::refused) return;
  error_ = make_error(Errc::peer_failed, Stage::connect, "the peer closed the connection", peer_,
                      Hint::peer_gone);
  step_ = Step::refused;
  out_.clear();
  sent_ = 0;
}

void Handshake::sent(std::size_t bytes) noexcept {
  sent_ += bytes;
  if (sent_ < out_.size()) return;
  out_.clear();
  sent_ = 0;
}

}  // namespace hbmwire::wire

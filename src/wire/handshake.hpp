// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hbmwire/error.hpp"

#include "base/node_id.hpp"
#include "wire/authentication.hpp"
#include "wire/endpoint_offer.hpp"

/// How two endpoints meet (docs/endpoint-protocol.md): a greeting each way, an offer each way, and
/// a word each way that the queue pairs are ready.
namespace hbmwire::wire {

/// Why an end does not want to be connected, as it tells the other: append only.
enum class Refusal : std::uint16_t {
  malformed = 1,        ///< what the peer said is no handshake, or out of turn
  version = 2,          ///< another version
  key_missing = 3,      ///< this end has a pre-shared key, the peer has none
  key_unexpected = 4,   ///< the peer has one, this end has none
  key_wrong = 5,        ///< theirs is another
  no_room = 6,          ///< this end is out of resources
  not_reachable = 7,    ///< the NICs' queue pairs can't be wired up
  too_slow = 8,         ///< did not get on
  other_link = 9,       ///< one NIC's port is Ethernet, the other's InfiniBand
  no_descriptors = 10,  ///< this end is out of descriptors
  path_policy = 11,     ///< this end's policy excludes tcp, and one of both ends has no NIC
};

inline constexpr std::uint16_t kLastRefusal = 11;

/// Tells ends of one node, and of one process, from others: never 0, and nearly never the same for
/// two processes.
[[nodiscard]] std::uint32_t whereabouts(const NodeId& node, std::uint64_t incarnation) noexcept;

/// The longest that a side says at its turn: an offer and its proof.
inline constexpr std::size_t kMaxTurnBytes = 4 + kMaxOfferBytes + kProofBytes;

/// One side of one handshake, without the connection that carries it: bytes come in by take(), as
/// many as wanted() says and cut in any way, and go out by to_send(). Nothing is trusted, nothing
/// waits, and nothing is kept but one frame. Errors carry Stage::connect and the peer's name.
class Handshake {
 public:
  enum class Side : std::uint8_t { connecting, accepting };
  enum class Step : std::uint8_t {
    talking,
    has_greeting,  ///< the connecting side's, unless it has made its offer before: offer()
    has_offer,     ///< theirs() is there, and proven where there is a key: answer() or confirm()
    done,
    refused,  ///< error() says why; a refusal may still be to_send()
  };

  /// `whereabouts`: of this end, so that both know whether they are late(); 0: it is not to be.
  /// Errors: check_key()'s, make_nonce()'s.
  static Result<Handshake> create(Side side, std::string peer,
                                  std::span<const std::byte> pre_shared_key,
                                  std::uint32_t whereabouts = 0);

  /// The connecting side's, before anything is taken or at has_greeting; the accepting side's, at
  /// has_offer, once its queue pairs are wired up.
  void offer(const EndpointOffer& own);

  /// The connecting side's, at has_offer: its queue pairs are wired up.
  void confirm();

  /// For a reason of this end's own, which is told where it tells nothing to a stranger.
  void refuse(Refusal why, const Error& error);

  /// How many bytes to read at most: 0 while it is this end's turn, or all is said.
  [[nodiscard]] std::size_t wanted() const noexcept;
  void take(std::span<const std::byte> bytes);

  /// The peer has closed its connection: what is not over fails.
  void end();

  [[nodiscard]] std::span<const std::byte> to_send() const noexcept {
    return std::span(out_).subspan(sent_);
  }

  void sent(std::size_t bytes) noexcept;

  [[nodiscard]] Step step() const noexcept { return step_; }

  /// From has_greeting and has_offer on: both ends are processes of one node that want to begin
  /// without queue pairs, so that both offers say so.
  [[nodiscard]] bool is_late() const noexcept { return late_; }

  [[nodiscard]] const EndpointOffer& theirs() const noexcept { return *theirs_; }

  [[nodiscard]] const Error& error() const noexcept { return *error_; }

  [[nodiscard]] const std::string& peer() const noexcept { return peer_; }

  void set_peer(std::string peer) { peer_ = std::move(peer); }

 private:
  enum class Expected : std::uint8_t { greeting, header, payload };
  enum class Frame : std::uint16_t { offer = 1, ready = 2, refusal = 3 };

  Handshake(Side side, std::string peer, std::span<const std::byte> pre_shared_key, Nonce nonce,
            std::uint32_t whereabouts);

  [[nodiscard]] bool connecting() const noexcept { return side_ == Side::connecting; }

  void say(std::span<const std::byte> bytes);
  void say(Frame type, std::span<const std::byte> payload);
  void greet();
  void on_byte_of_greeting();
  void on_greeting();
  void on_header();
  void on_frame();
  void on_offer(std::span<const std::byte> payload);
  void on_ready();
  void on_refusal(std::span<const std::byte> payload);
  [[nodiscard]] bool proven(std::span<const std::byte> proof, const char* what) const noexcept;

  [[nodiscard]] std::size_t proof_bytes() const noexcept { return keyed_ ? kProofBytes : 0; }

  [[nodiscard]] std::size_t whole() const noexcept;
  void fail(Refusal why, Errc code, const char* sentence, Hint hint);

  Transcript transcript_;
  Side side_;
  Step step_ = Step::talking;
  Expected expected_ = Expected::greeting;
  bool keyed_;
  bool greeted_ = false;
  bool late_ = false;
  std::uint32_t whereabouts_;
  std::string peer_;
  Nonce nonce_;
  std::vector<std::byte> in_;  // of what is expected
  std::vector<std::byte> out_;
  std::size_t sent_ = 0;
  std::optional<EndpointOffer> own_;
  std::optional<EndpointOffer> theirs_;
  std::optional<Error> error_;
};

}  // namespace hbmwire::wire

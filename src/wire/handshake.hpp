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

/// The handshake of two endpoints (docs/endpoint-protocol.md). Each side sends a greeting, an
/// offer, and then a message that its queue pairs are ready.
namespace hbmwire::wire {

/// Why an end refuses the connection. The number goes to the peer: only append.
enum class Refusal : std::uint16_t {
  malformed = 1,        ///< the peer's message is malformed, or out of turn
  version = 2,          ///< the peer has another version
  key_missing = 3,      ///< this end has a pre-shared key, the peer has none
  key_unexpected = 4,   ///< the peer has one, this end has none
  key_wrong = 5,        ///< the peer has another one
  no_room = 6,          ///< this end is out of resources
  not_reachable = 7,    ///< the NICs' queue pairs cannot be connected
  too_slow = 8,         ///< the peer took too long
  other_link = 9,       ///< one NIC's port is Ethernet, the other's InfiniBand
  no_descriptors = 10,  ///< this end is out of descriptors
  path_policy = 11,     ///< this end's policy excludes tcp, and an end has no NIC
};

inline constexpr std::uint16_t kLastRefusal = 11;

/// Identifies an end's node and process in 32 bits: never 0, and almost never the same for two
/// processes.
[[nodiscard]] std::uint32_t whereabouts(const NodeId& node, std::uint64_t incarnation) noexcept;

inline constexpr std::size_t kFrameHeaderBytes = 4;  ///< length u16, type u16

/// The most bytes that a side sends in one turn: an offer and its proof.
inline constexpr std::size_t kMaxTurnBytes = kFrameHeaderBytes + kMaxOfferBytes + kProofBytes;

/// One side of one handshake, without the connection that carries it. Received bytes go to take(),
/// at most as many as wanted() says, in pieces of any size. Bytes to send come from to_send(). It
/// trusts nothing, never waits, and stores at most one frame. Errors have Stage::connect and the
/// peer's name.
class Handshake {
 public:
  enum class Side : std::uint8_t { connecting, accepting };
  enum class Step : std::uint8_t {
    talking,
    has_greeting,  ///< connecting side: call offer(), if it was not called before
    has_offer,     ///< theirs() is set, and proven if there is a key: call offer() or confirm()
    done,
    refused,  ///< error() says why; a refusal may still be in to_send()
  };

  /// `whereabouts`: that of this end, so that both find out whether they are late (is_late()); 0:
  /// this end does not want to be. Errors: those of check_key() and make_nonce().
  static Result<Handshake> create(Side side, std::string peer,
                                  std::span<const std::byte> pre_shared_key,
                                  std::uint32_t whereabouts = 0);

  /// The connecting side calls this before anything is taken, or at has_greeting. The accepting
  /// side calls it at has_offer, once its queue pairs are connected.
  void offer(const EndpointOffer& own);

  /// The connecting side calls this at has_offer, once its queue pairs are connected.
  void confirm();

  /// Refuses for a reason of this end. The peer is told only if this end has greeted, so that a
  /// stranger learns nothing.
  void refuse(Refusal why, const Error& error);

  /// The most bytes to read now; 0 if it is this end's turn, or if the handshake is over.
  [[nodiscard]] std::size_t wanted() const noexcept;
  void take(std::span<const std::byte> bytes);

  /// The peer has closed its connection: an unfinished handshake fails.
  void end();

  [[nodiscard]] std::span<const std::byte> to_send() const noexcept {
    return std::span(out_).subspan(sent_);
  }

  void sent(std::size_t bytes) noexcept;

  [[nodiscard]] Step step() const noexcept { return step_; }

  /// Valid from has_greeting and has_offer on. Whether both ends are processes of one node that
  /// want to begin without queue pairs; both offers must say so, too.
  [[nodiscard]] bool is_late() const noexcept { return late_; }

  [[nodiscard]] const EndpointOffer& theirs() const noexcept { return *theirs_; }

  [[nodiscard]] const Error& error() const noexcept { return *error_; }

  [[nodiscard]] const std::string& peer() const noexcept { return peer_; }

  void set_peer(std::string peer) { peer_ = std::move(peer); }

 private:
  // `Expected` is the part that take() collects now. `Frame` is the type of a message after the
  // greeting.
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

  /// How many bytes `in_` has when the expected part is complete. With a payload, these include the
  /// header before it.
  [[nodiscard]] std::size_t whole() const noexcept;
  void fail(Refusal why, Errc code, const char* sentence, Hint hint);

  Transcript transcript_;
  Side side_;
  Step step_ = Step::talking;
  Expected expected_ = Expected::greeting;
  bool keyed_;
  bool greeted_ = false;
  bool late_ = false;  // is_late()
  std::uint32_t whereabouts_;
  std::string peer_;
  Nonce nonce_;
  std::vector<std::byte> in_;   // the beginning of the expected part
  std::vector<std::byte> out_;  // to_send() leaves out the first `sent_` bytes
  std::size_t sent_ = 0;
  std::optional<EndpointOffer> own_;
  std::optional<EndpointOffer> theirs_;
  std::optional<Error> error_;
};

}  // namespace hbmwire::wire

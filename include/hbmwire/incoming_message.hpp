// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "hbmwire/error.hpp"
#include "hbmwire/export.hpp"
#include "hbmwire/region.hpp"
#include "hbmwire/transfer.hpp"

namespace hbmwire {

namespace detail {
struct Internals;
struct UnexpectedMessage;
}  // namespace detail

/// A message of an endpoint that hands its messages out. MessageMode::handed_out selects that, and
/// Worker::next_message() gives the messages. Move-only; used by its worker's thread
/// (WorkerOptions::progress_thread: by any thread, one at a time). It holds its worker, its
/// endpoint's queue pairs, and one of the places for the peer's messages
/// (EndpointOptions::receive_depth) or a part of EndpointOptions::unexpected_bytes: let it go soon.
class HBMWIRE_API IncomingMessage {
 public:
  IncomingMessage() noexcept = default;

  IncomingMessage(IncomingMessage&& other) noexcept
      : state_(std::exchange(other.state_, nullptr)) {}

  IncomingMessage& operator=(IncomingMessage&& other) noexcept {
    if (this == &other) return *this;
    reset();
    state_ = std::exchange(other.state_, nullptr);
    return *this;
  }

  IncomingMessage(const IncomingMessage&) = delete;
  IncomingMessage& operator=(const IncomingMessage&) = delete;

  ~IncomingMessage() { reset(); }

  /// Lets the message go. If its bytes are not here and were not received, its send fails at the
  /// peer (Errc::cancelled, Hint::message_let_go); the endpoint goes on.
  void reset() noexcept {
    if (state_ != nullptr) let_go();
  }

  /// Whether it holds a message.
  explicit operator bool() const noexcept { return state_ != nullptr; }

  /// Endpoint::id() of the endpoint that it came by, which may have ended since.
  [[nodiscard]] std::uint64_t endpoint_id() const noexcept;

  /// Its tag; empty if it was sent without one.
  [[nodiscard]] std::optional<std::uint64_t> tag() const noexcept;

  /// The length of the message.
  [[nodiscard]] std::uint64_t length_bytes() const noexcept;

  /// Whether bytes() has its bytes. Those of messages of more than EndpointOptions::eager_bytes,
  /// and of device memory, are still at the sender: receive() brings them.
  [[nodiscard]] bool is_here() const noexcept;

  /// All of its bytes, valid until the message is let go; empty if is_here() is false.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept;

  /// Brings the message to `into`, as Endpoint::receive() does, and lets it go here. Errors: as
  /// Endpoint::receive(), and the message stays. Errc::peer_failed or cancelled: its endpoint has
  /// failed, or it has ended and the message is not here. A message that outlives its endpoint
  /// cannot be received into device memory.
  Result<Transfer> receive(const Slice& into);

 private:
  friend struct detail::Internals;

  explicit IncomingMessage(detail::UnexpectedMessage* state) noexcept : state_(state) {}

  void let_go() noexcept;

  detail::UnexpectedMessage* state_ = nullptr;
};

}  // namespace hbmwire

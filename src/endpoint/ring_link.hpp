// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/shared_file.hpp"
#include "registration/shared_key_file.hpp"
#include "transport/shared/neighbour.hpp"
#include "transport/shared/ring.hpp"
#include "wire/endpoint_offer.hpp"

namespace hbmwire::detail {

struct EndpointState;

/// Messages between an endpoint and its peer in another process of the node, by a ring each way
/// (docs/adr/0029). Either both ends send so, or neither does: each has told the other of its ring
/// before it says in the handshake that it is ready.
///
/// A frame begins when nothing is under way by the endpoint's data lane, so that what was started
/// before it has arrived.
class RingLink {
 public:
  explicit RingLink(EndpointState& endpoint) noexcept : endpoint_(endpoint) {}

  RingLink(const RingLink&) = delete;
  RingLink& operator=(const RingLink&) = delete;
  ~RingLink();

  // --- connecting

  /// By what the peer tells this endpoint from others of its process; 0: it has no part in rings.
  [[nodiscard]] std::uint32_t own_number() const noexcept;

  /// The endpoint has no socket that wakes it, or is connected without a handshake.
  void exclude() noexcept { excluded_ = true; }

  /// Makes a ring to the peer, whose memory is reached by `neighbour`, and tells it. Errors:
  /// Stage::allocate.
  Result<void> offer(transport::Neighbour& neighbour, const wire::EndpointOffer& theirs);

  /// The longest message, with its header, where `longest` is the data lane's.
  [[nodiscard]] std::uint64_t longest_message(std::uint64_t longest) const noexcept {
    return neighbour_ == nullptr
               ? longest
               : std::min<std::uint64_t>(longest, transport::RingWriter::kMostBytes);
  }

  /// The handshake is over, and both ends have told each other, or not. Errors: Stage::open.
  Result<void> settle();

  [[nodiscard]] bool is_on() const noexcept { return on_; }

  /// Whether the peer's process reads this one's private memory.
  [[nodiscard]] bool peer_reaches_private() const noexcept { return peer_reaches_private_; }

  /// By the clock.
  void look() noexcept;

  // --- sending

  /// Whether a frame of so many bytes fits; if not, the endpoint's queues are gone through with the
  /// next look.
  [[nodiscard]] bool has_room(std::uint32_t bytes) noexcept;

  /// The peer has taken all that was sent; if not, as has_room().
  [[nodiscard]] bool is_empty() noexcept;

  /// Where it has_room(). As transport::RingWriter::write().
  int send(const transport::RingWriter::Frame& frame) noexcept;

  /// A message of the control lane has gone by the socket, at which a peer that polls looks seldom.
  void tell_of_word() noexcept;

  // --- receiving: RingPoller's

  /// Takes frames that have come, some at a time; how many things happened. `polls`: polls the data
  /// lane before each of them, which must not be in a poll now.
  std::size_t take(bool polls) noexcept;

  /// Takes all that has come: the peer sends no more.
  void take_all() noexcept;

  [[nodiscard]] bool waits() const noexcept { return waits_; }

  [[nodiscard]] bool has_frame() const noexcept { return reader_->has_frame(); }

  void set_attention(transport::Attention how) noexcept { reader_->set_attention(how); }

  /// The place of its bell.
  [[nodiscard]] std::uint32_t bell() const noexcept { return bell_; }

  std::uint32_t idle_looks = 0;  // RingPoller's
  bool is_hot = false;

 private:
  void on_frame(const transport::RingReader::Frame& frame) noexcept;
  void wait_for_peer() noexcept;
  void leave() noexcept;

  EndpointState& endpoint_;
  transport::Neighbour* neighbour_ = nullptr;  // null: no ring was offered
  wire::EndpointOffer::Shares theirs_;
  std::uint64_t peers_incarnation_ = 0;
  SharedFile own_file_;  // until the peer has opened it
  transport::MappedRing own_;
  transport::MappedRing peers_;
  std::optional<transport::RingWriter> writer_;
  std::optional<transport::RingReader> reader_;
  std::uint32_t bell_ = 0;
  bool on_ = false;
  bool polled_ = false;  // by RingPoller
  bool peer_reaches_private_ = false;
  bool excluded_ = false;
  bool waits_ = false;  // for the peer to take something
};

}  // namespace hbmwire::detail

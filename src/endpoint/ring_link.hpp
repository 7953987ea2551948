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

/// Messages between an endpoint and its peer in another process of the node, by a shared-memory
/// ring each way (docs/adr/0029). Either both ends send by rings, or neither does: each end tells
/// the other of its ring before it says in the handshake that it is ready.
///
/// A frame is sent only when the endpoint's data lane has nothing under way, so that everything
/// started before it has arrived.
class RingLink {
 public:
  explicit RingLink(EndpointState& endpoint) noexcept : endpoint_(endpoint) {}

  RingLink(const RingLink&) = delete;
  RingLink& operator=(const RingLink&) = delete;
  ~RingLink();

  // --- connecting

  /// The number by which the peer tells this endpoint from others of its process; 0: it uses no
  /// rings.
  [[nodiscard]] std::uint32_t own_number() const noexcept;

  /// Excludes the endpoint from rings: it has no socket that wakes it, or was connected without a
  /// handshake.
  void exclude() noexcept { excluded_ = true; }

  /// Makes a ring to the peer, whose memory `neighbour` reaches, and tells the peer of it. Errors:
  /// Stage::allocate.
  Result<void> offer(transport::Neighbour& neighbour, const wire::EndpointOffer& theirs);

  /// The longest message, with its header. `longest`: that of the data lane.
  [[nodiscard]] std::uint64_t longest_message(std::uint64_t longest) const noexcept {
    return neighbour_ == nullptr
               ? longest
               : std::min<std::uint64_t>(longest, transport::RingWriter::kMostBytes);
  }

  /// Decides whether rings are used. Call it when the handshake is over: both ends have then told
  /// each other of their rings, or have none. Errors: Stage::open.
  Result<void> settle();

  [[nodiscard]] bool is_on() const noexcept { return on_; }

  /// Whether the peer's process can read private memory of this one.
  [[nodiscard]] bool peer_reaches_private() const noexcept { return peer_reaches_private_; }

  /// Called regularly by the clock.
  void look() noexcept;

  // --- sending

  /// Whether a frame of this many bytes fits. If not, the endpoint's queues are served with the
  /// next look.
  [[nodiscard]] bool has_room(std::uint32_t bytes) noexcept;

  /// Whether the peer has taken everything that was sent. If not, as has_room().
  [[nodiscard]] bool is_empty() noexcept;

  /// Sends a frame, for which has_room() must be true. As transport::RingWriter::write().
  int send(const transport::RingWriter::Frame& frame) noexcept;

  /// Tells a peer that polls of a control message that has gone by the socket, since such a peer
  /// looks at sockets seldom.
  void tell_of_word() noexcept;

  // --- receiving; used by RingPoller

  /// Takes some of the frames that have come, and returns how many events that made. `polls`: polls
  /// the data lane before each frame; it must not be in a poll already.
  std::size_t take(bool polls) noexcept;

  /// Takes all frames that have come: the peer sends no more.
  void take_all() noexcept;

  /// Whether something waits for the peer to take frames.
  [[nodiscard]] bool waits() const noexcept { return waits_; }

  [[nodiscard]] bool has_frame() const noexcept { return reader_->has_frame(); }

  void set_attention(transport::Attention how) noexcept { reader_->set_attention(how); }

  /// The number of its bell.
  [[nodiscard]] std::uint32_t bell() const noexcept { return bell_; }

  std::uint32_t idle_looks = 0;  // used by RingPoller
  bool is_hot = false;

 private:
  void on_frame(const transport::RingReader::Frame& frame) noexcept;
  void wait_for_peer() noexcept;
  void leave() noexcept;

  EndpointState& endpoint_;
  transport::Neighbour* neighbour_ = nullptr;  // null: no ring was offered
  wire::EndpointOffer::Shares theirs_;
  std::uint64_t peers_incarnation_ = 0;
  SharedFile own_file_;          // open until the peer has opened it
  transport::MappedRing own_;    // made by this end, which writes it
  transport::MappedRing peers_;  // made by the peer; this end reads it
  std::optional<transport::RingWriter> writer_;
  std::optional<transport::RingReader> reader_;
  std::uint32_t bell_ = 0;
  bool on_ = false;      // both ends send by rings
  bool polled_ = false;  // RingPoller has it
  bool peer_reaches_private_ = false;
  bool excluded_ = false;  // exclude()
  bool waits_ = false;     // waits()
};

}  // namespace hbmwire::detail

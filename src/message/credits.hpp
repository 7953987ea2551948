// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace hbmwire::detail {

/// How much each end may send. A credit is a place for one message or immediate in its receiver's
/// queue of receives; its sender spends it, and has it back when a later message of the receiver
/// says so. All of a connection's credits this way are in one of four hands: the sender's, under
/// way, with messages that the receiver has not taken, or free again but not told.
///
/// A large message, and one whose sender waits for word, keeps its credit until it is over, so that
/// messages about it need none. Answers need none either: their receiver has places for them, and
/// no more messages under way that are to be answered than places.
class Credits {
 public:
  /// `receive_depth`: places that the peer may fill here.
  explicit Credits(std::uint32_t receive_depth) noexcept
      : peers_(receive_depth), many_(receive_depth / 2) {}

  /// The peer has said how many places it has.
  void connect(std::uint32_t places) noexcept { ours_ = most_ = places; }

  // --- ours, at the peer

  [[nodiscard]] bool may_send() const noexcept { return ours_ != 0; }

  void spend() noexcept { --ours_; }

  /// The peer gives `count` back. False: it has not as many places.
  [[nodiscard]] bool add(std::uint32_t count) noexcept {
    ours_ += count;
    return ours_ <= most_;
  }

  // --- the peer's, here

  /// The peer has spent one. False: it had none.
  [[nodiscard]] bool take() noexcept {
    if (peers_ == 0) [[unlikely]]
      return false;
    --peers_;
    return true;
  }

  /// A place is free again.
  void free_place() noexcept { ++untold_; }

  /// Whether so many places are free that a message of its own tells the peer.
  [[nodiscard]] bool are_due() const noexcept { return untold_ >= many_; }

  /// For the header of the next message. told() follows when that is posted.
  [[nodiscard]] std::uint16_t to_tell() const noexcept {
    constexpr std::uint32_t kMost = std::numeric_limits<std::uint16_t>::max();
    return static_cast<std::uint16_t>(std::min(untold_, kMost));
  }

  void told(std::uint16_t count) noexcept {
    untold_ -= count;
    peers_ += count;
  }

 private:
  std::uint32_t ours_ = 0;    // messages that we may send
  std::uint32_t most_ = 0;    // the peer's receive_depth: so many `ours_` may become
  std::uint32_t peers_;       // messages that the peer may send
  std::uint32_t untold_ = 0;  // places that are free again, of which the peer does not know
  std::uint32_t many_;        // of these
};

}  // namespace hbmwire::detail

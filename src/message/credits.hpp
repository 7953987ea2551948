// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "message/receives.hpp"

namespace hbmwire::detail {

/// How much each end may send. A credit is a place for one message or immediate among its
/// receiver's receives. The sender spends it, and gets it back when a later message of the receiver
/// says so. At any time, each credit of a connection, in one direction, is in one of four states:
/// with the sender, under way, held by a message that the receiver has not taken, or free again but
/// not yet told to the sender.
///
/// A large message, and a message whose sender waits for an answer, keeps its credit until it is
/// over, so messages about it need none. Answers need no credit, either: their receiver has
/// places for them, and never has more messages under way that need an answer than such places. A
/// message that only gives credits back needs none: at most one at a time has not been seen by its
/// receiver.
///
/// The number of places changes. It begins with a few, and each message adds one while there are
/// free receives. When other lanes are short of receives, places are given back.
class Credits {
 public:
  /// The peer is certain of this many places, or of `most` if that is less.
  static constexpr std::uint32_t kSure = 4;

  /// `receives`: those that the peer may fill here, at most `most` at a time.
  Credits(Receives& receives, std::uint32_t most) noexcept
      : receives_(receives), places_most_(most) {}

  /// Lets the peer fill `count` places from the start.
  void lend(std::uint32_t count) noexcept { places_ = peers_ = count; }

  [[nodiscard]] std::uint32_t places() const noexcept { return places_; }

  /// Notes how many places the peer has at the start, and at most.
  void connect(std::uint32_t places, std::uint32_t most) noexcept {
    ours_ = places;
    most_ = most;
  }

  // --- our credits, at the peer

  [[nodiscard]] bool may_send() const noexcept { return ours_ != 0; }

  void spend() noexcept { --ours_; }

  /// The peer gives `count` credits back. False: it does not have that many places.
  [[nodiscard]] bool add(std::uint32_t count) noexcept {
    ours_ += count;
    return ours_ <= most_;
  }

  // --- the peer's credits, here

  /// The peer has spent a credit. False: it had none.
  [[nodiscard]] bool take() noexcept {
    if (peers_ == 0) [[unlikely]]
      return false;
    --peers_;
    if (unseen_ != 0) --unseen_;
    return true;
  }

  /// Call it after each message of the peer. If the peer has used up all places, and none is free,
  /// this adds a place if the pool has one: the messages that have come may be waiting for a later
  /// one.
  void grow_if_used_up() noexcept {
    if (peers_ == 0 && untold_ == 0) [[unlikely]]
      grow();
  }

  /// The peer sends nothing more, so it needs no more places than it has.
  void end() noexcept { places_most_ = places_; }

  /// A place is free again.
  void free_place() noexcept {
    ++untold_;
    if (places_ != places_most_ || receives_.are_short()) [[unlikely]]
      adapt();
  }

  /// Whether free places are worth a message of their own: there are more of them than the peer has
  /// credits left.
  [[nodiscard]] bool are_due() const noexcept { return untold_ > peers_ && unseen_ == 0; }

  /// The number of free places for the header of the next message. Call told() when that is posted.
  [[nodiscard]] std::uint16_t to_tell() const noexcept {
    constexpr std::uint32_t kMost = std::numeric_limits<std::uint16_t>::max();
    return static_cast<std::uint16_t>(std::min(untold_, kMost));
  }

  /// The peer was told of `count` places. `alone`: in a message that carries nothing else.
  void told(std::uint16_t count, bool alone) noexcept {
    // The peer has `peers_` credits without this message. When it has spent one more, it has seen
    // it.
    if (alone) unseen_ = peers_ + 1;
    untold_ -= count;
    peers_ += count;
  }

 private:
  /// A place is free: gives it back to the pool if lanes are short of receives and this one has
  /// more than its share. If they are not short, adds another place.
  void adapt() noexcept {
    if (receives_.are_short()) {
      if (places_ <= kSure + receives_.fair_share()) return;
      receives_.give_back();
      --places_;
      --untold_;
    } else {
      grow();
    }
  }

  /// Adds a place, if this lane may have more and the pool has a receive.
  void grow() noexcept {
    if (places_ == places_most_ || !receives_.take()) return;
    ++places_;
    ++untold_;
  }

  std::uint32_t ours_ = 0;    // messages that we may send
  std::uint32_t most_ = 0;    // the peer's receive_depth, which bounds `ours_`
  std::uint32_t peers_ = 0;   // messages that the peer may send
  std::uint32_t untold_ = 0;  // places that are free again, but not yet told to the peer
  std::uint32_t unseen_ = 0;  // how many messages the peer may still send before it must have seen
                              // the last message that only gave credits
  Receives& receives_;
  std::uint32_t places_ = 0;
  std::uint32_t places_most_;
};

}  // namespace hbmwire::detail

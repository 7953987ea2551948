// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "message/receives.hpp"

namespace hbmwire::detail {

/// How much each end may send. A credit is a place for one message or immediate among its
/// receiver's receives; its sender spends it, and has it back when a later message of the receiver
/// says so. All of a connection's credits this way are in one of four hands: the sender's, under
/// way, with messages that the receiver has not taken, or free again but not told.
///
/// A large message, and one whose sender waits for word, keeps its credit until it is over, so that
/// messages about it need none. Answers need none either: their receiver has places for them, and
/// no more messages under way that are to be answered than places. Nor does a message that gives
/// credits alone: there is one at a time of which the sender does not know that it has come.
///
/// How many places there are changes: it begins with a few, takes one more with each message as
/// long as there are some, and gives that back when others are short of them.
class Credits {
 public:
  /// The peer is sure of so many places, or of `most` where that is less.
  static constexpr std::uint32_t kSure = 4;

  /// `receives`: those that the peer may fill here, `most` at a time.
  Credits(Receives& receives, std::uint32_t most) noexcept
      : receives_(receives), places_most_(most) {}

  /// The peer may fill `count` places from the start.
  void lend(std::uint32_t count) noexcept { places_ = peers_ = count; }

  [[nodiscard]] std::uint32_t places() const noexcept { return places_; }

  /// The peer has said how many places it has for a start, and at most.
  void connect(std::uint32_t places, std::uint32_t most) noexcept {
    ours_ = places;
    most_ = most;
  }

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
    if (unseen_ != 0) --unseen_;
    return true;
  }

  /// After each message of the peer: where it has used up all places, and none is free, it has one
  /// more if there is one, since those that have come may wait for a later one.
  void grow_if_used_up() noexcept {
    if (peers_ == 0 && untold_ == 0) [[unlikely]]
      grow();
  }

  /// The peer sends nothing more: it needs no more places than it has.
  void end() noexcept { places_most_ = places_; }

  /// A place is free again.
  void free_place() noexcept {
    ++untold_;
    if (places_ != places_most_ || receives_.are_short()) [[unlikely]]
      adapt();
  }

  /// Whether a message of its own tells the peer of those that are free: more than it has left.
  [[nodiscard]] bool are_due() const noexcept { return untold_ > peers_ && unseen_ == 0; }

  /// For the header of the next message. told() follows when that is posted.
  [[nodiscard]] std::uint16_t to_tell() const noexcept {
    constexpr std::uint32_t kMost = std::numeric_limits<std::uint16_t>::max();
    return static_cast<std::uint16_t>(std::min(untold_, kMost));
  }

  /// `alone`: in a message that says nothing else.
  void told(std::uint16_t count, bool alone) noexcept {
    if (alone) unseen_ = peers_ + 1;
    untold_ -= count;
    peers_ += count;
  }

 private:
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

  void grow() noexcept {
    if (places_ == places_most_ || !receives_.take()) return;
    ++places_;
    ++untold_;
  }

  std::uint32_t ours_ = 0;    // messages that we may send
  std::uint32_t most_ = 0;    // the peer's receive_depth: so many `ours_` may become
  std::uint32_t peers_ = 0;   // messages that the peer may send
  std::uint32_t untold_ = 0;  // places that are free again, of which the peer does not know
  std::uint32_t unseen_ = 0;  // messages of the peer until it has seen what was told alone
  Receives& receives_;
  std::uint32_t places_ = 0;
  std::uint32_t places_most_;
};

}  // namespace hbmwire::detail

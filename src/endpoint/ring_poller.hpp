// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "registration/shared_key_file.hpp"

namespace hbmwire::detail {

class RingLink;

/// The rings by which endpoints of a worker receive. Rings that had a frame lately are hot: each
/// poll looks at them. Each other ring has a bell, a bit in this process's memory that its peer
/// sets, so that a thousand silent rings cost only the look at a few words.
class RingPoller {
 public:
  RingPoller() = default;
  RingPoller(const RingPoller&) = delete;
  RingPoller& operator=(const RingPoller&) = delete;
  ~RingPoller() = default;

  /// Adds a ring. `holds`: has its bell; stays valid. May throw std::bad_alloc.
  void add(RingLink& link, SharedHoldFile& holds);
  void remove(RingLink& link) noexcept;

  /// Makes the ring hot: each poll looks at it from here on.
  void heat(RingLink& link) noexcept;

  [[nodiscard]] bool empty() const noexcept { return all_.empty(); }

  /// Polls the rings, and returns how many events that made.
  std::size_t progress() noexcept;

  /// Prepares for a thread that is about to sleep: from here on a peer that sends must wake it,
  /// unless the next progress() finds its frame.
  void begin_sleep() noexcept;

  /// Whether something waits for a peer to take frames. No event tells of that, so the caller must
  /// poll.
  [[nodiscard]] bool waits() const noexcept;

 private:
  /// The bits of one word of bells that are bells of these rings.
  struct Bells {
    std::size_t word = 0;
    std::uint64_t mask = 0;
  };

  void heat_those_with_frames() noexcept;
  void wake_up() noexcept;
  void cool(std::size_t index) noexcept;
  /// Takes the frames of rings whose bells have rung, and makes those rings hot.
  std::size_t answer_bells() noexcept;

  std::vector<RingLink*> hot_;
  std::vector<RingLink*> all_;
  std::vector<RingLink*> by_bell_;
  std::vector<Bells> bells_;
  SharedHoldFile* holds_ = nullptr;
  bool sleeps_ = false;
};

}  // namespace hbmwire::detail

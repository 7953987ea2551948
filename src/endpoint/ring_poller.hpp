// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "registration/shared_key_file.hpp"

namespace hbmwire::detail {

class RingLink;

/// The rings by which endpoints of a worker receive. Those that had something lately are looked at
/// with each poll (hot). Of the others a bit in this process' memory says which one to look at (its
/// bell), so that a thousand that are silent cost as much as a few words.
class RingPoller {
 public:
  RingPoller() = default;
  RingPoller(const RingPoller&) = delete;
  RingPoller& operator=(const RingPoller&) = delete;
  ~RingPoller() = default;

  /// `holds`: with its bell; stays. May throw std::bad_alloc.
  void add(RingLink& link, SharedHoldFile& holds);
  void remove(RingLink& link) noexcept;

  /// Looks at it with each poll from here on.
  void heat(RingLink& link) noexcept;

  [[nodiscard]] bool empty() const noexcept { return all_.empty(); }

  /// How many things happened.
  std::size_t progress() noexcept;

  /// A thread is about to sleep: who sends something has to wake it, unless the next progress()
  /// sees it.
  void begin_sleep() noexcept;

  /// Something waits for a peer to take what was sent, which nothing tells of.
  [[nodiscard]] bool waits() const noexcept;

 private:
  /// Bells of which some are of these rings.
  struct Bells {
    std::size_t word = 0;
    std::uint64_t mask = 0;
  };

  void heat_those_with_frames() noexcept;
  void wake_up() noexcept;
  void cool(std::size_t index) noexcept;
  std::size_t answer_bells() noexcept;

  std::vector<RingLink*> hot_;
  std::vector<RingLink*> all_;
  std::vector<RingLink*> by_bell_;
  std::vector<Bells> bells_;
  SharedHoldFile* holds_ = nullptr;
  bool sleeps_ = false;
};

}  // namespace hbmwire::detail

// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "message/slots.hpp"

namespace hbmwire::detail {

/// How long transfers wait for the peer's word, by looking at their places now and then: what opens
/// and closes one pays nothing for it.
class AnswerWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit AnswerWatch(const Slots& slots) : seen_(slots.size()) {}

  /// One that has been seen waiting for longer than `patience`; null: there is none.
  TransferState* look(const Slots& slots, Time now, std::chrono::nanoseconds patience) noexcept {
    TransferState* found = nullptr;
    for (std::uint32_t place = 0; place < seen_.size(); ++place) {
      const std::uint32_t id = slots.id_at(place);
      Seen& seen = seen_[place];
      if (id == 0 || id != seen.id) {
        seen = {id, now};
      } else if (now - seen.since > patience) {
        found = slots.find(id);
      }
    }
    return found;
  }

 private:
  struct Seen {
    std::uint32_t id = 0;  // 0: nobody waited
    Time since;
  };

  std::vector<Seen> seen_;
};

}  // namespace hbmwire::detail

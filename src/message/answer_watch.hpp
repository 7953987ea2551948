// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "message/slots.hpp"

namespace hbmwire::detail {

/// How long transfers have waited for an answer of the peer. It samples their slots now and then,
/// so that opening and closing a slot costs nothing.
class AnswerWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit AnswerWatch(const Slots& slots) : seen_(slots.size()) {}

  /// A transfer that has been seen waiting for longer than `patience`; null if there is none.
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
    std::uint32_t id = 0;  // 0: no transfer waited
    Time since;
  };

  std::vector<Seen> seen_;
};

}  // namespace hbmwire::detail

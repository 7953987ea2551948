// SPDX-License-Identifier: MIT
#include "message/slots.hpp"

namespace hbmwire::detail {

Slots::Slots(std::uint32_t count) : slots_(count) {
  // Backwards, so that the first place is used first.
  for (std::uint32_t place = count; place-- != 0;) {
    slots_[place].next = free_;
    free_ = place;
  }
}

}  // namespace hbmwire::detail

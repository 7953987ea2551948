// SPDX-License-Identifier: MIT
#include "message/mailbox.hpp"

namespace hbmwire::detail {

Mailbox::Mailbox(std::uint32_t receive_depth, std::uint32_t answers_in)
    : most_waiting(receive_depth / 2),
      credits(receive_depth),
      matching(receive_depth),
      answers(receive_depth + answers_in),
      sent(answers_in),
      clearing(receive_depth),
      keys(receive_depth) {}

}  // namespace hbmwire::detail

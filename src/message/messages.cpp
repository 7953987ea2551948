// SPDX-License-Identifier: MIT
#include "message/messages.hpp"

#include <algorithm>

#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

namespace {

/// Messages of this end whose receiver may have something to say at a time: that many places there
/// are for answers. Half as many as for messages: a rendezvous is worth more than one of them.
std::uint32_t most_asked(const EndpointOptions& options) noexcept {
  return std::max(options.receive_depth / 2, 2U);
}

}  // namespace

Messages::Messages(EndpointState& endpoint, const EndpointOptions& options)
    : endpoint_(endpoint),
      eager_bytes_(options.eager_bytes),
      credits_(options.receive_depth),
      outbox_(endpoint, credits_, options.receive_depth + most_asked(options)),
      rendezvous_(endpoint, outbox_, options.receive_depth, most_asked(options)),
      inbox_(endpoint, credits_, outbox_, rendezvous_, options,
             options.receive_depth + MessageBuffers::kSpare + most_asked(options)) {}

Result<void> Messages::set_memory(std::byte* memory, std::uint32_t local_key) {
  outbox_.set_memory(memory + inbox_.memory_bytes(), local_key);
  return inbox_.set_memory(memory, local_key);
}

void Messages::connect(std::uint32_t places, std::uint32_t eager_bytes,
                       std::uint64_t longest_message) noexcept {
  credits_.connect(places);
  // A message that goes at once can't go in pieces.
  const std::uint64_t longest = std::max(longest_message, std::uint64_t{wire::kMessageHeaderBytes});
  eager_bytes_ = static_cast<std::uint32_t>(
      std::min<std::uint64_t>({eager_bytes_, eager_bytes, longest - wire::kMessageHeaderBytes}));
}

void Messages::mark_failed() noexcept {
  while (TransferState* const receive = inbox_.take_any_receive()) {
    receive->receives = false;
    endpoint_.ending.mark_failed(*receive);
  }
  // Each of these has a part that only the peer, or the send queue, could have ended.
  // Its requests may still complete well, but it is not over by that.
  const auto end_part = [&](TransferState& transfer) {
    if (transfer.then == Then::over) transfer.then = Then::cut;
    if (--transfer.parts == 0 && !transfer.waiting) endpoint_.go_on(transfer);
  };
  outbox_.clear(end_part);
  rendezvous_.clear(end_part);
}

void Messages::fail_receives(const Error& why) noexcept {
  while (TransferState* const receive = inbox_.take_any_receive())
    endpoint_.worker->fail(*receive, why, true);
}

bool Messages::cancel_receive(TransferState& transfer, const Error& why) noexcept {
  if (!inbox_.cancel(transfer)) return false;
  endpoint_.worker->fail(transfer, why, true);
  return true;
}

}  // namespace hbmwire::detail

// SPDX-License-Identifier: MIT
#include "message/messages.hpp"

#include <algorithm>

#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

namespace {

/// How many messages of this end may wait for an answer at a time; there are as many places for
/// answers. This is half the number of places for messages, since one rendezvous carries as much as
/// several eager messages.
std::uint32_t most_asked(const EndpointOptions& options) noexcept {
  return std::max(options.receive_depth / 2, 2U);
}

/// Receives for messages that only give credits back.
constexpr std::uint32_t kCredit = 1;

}  // namespace

Messages::Messages(EndpointState& endpoint, const EndpointOptions& options)
    : endpoint_(endpoint),
      eager_bytes_(options.eager_bytes),
      credits_(receives_, options.receive_depth),
      outbox_(endpoint, credits_, options.receive_depth + most_asked(options), endpoint.pressing),
      rendezvous_(endpoint, outbox_, receives_, options.receive_depth, most_asked(options)),
      inbox_(endpoint, receives_, credits_, outbox_, rendezvous_, options) {}

std::uint32_t Messages::receive_bytes(std::uint32_t eager_bytes) noexcept {
  return wire::kMessageHeaderBytes + std::max<std::uint32_t>(eager_bytes, wire::kPlaceBytes);
}

std::uint32_t Messages::own_receives() const noexcept {
  return endpoint_.options.receive_depth + kCredit + most_asked(endpoint_.options) +
         ReceivePool::kBatch;
}

Result<void> Messages::make_receives(ReceivePool* pool, UnexpectedPool& unexpected) {
  inbox_.set_pool(unexpected);
  const std::uint32_t depth = endpoint_.options.receive_depth;
  if (pool == nullptr) {
    rendezvous_.set_sure(most_asked(endpoint_.options));
    credits_.lend(depth);
  } else {
    // Answers beyond the first take extra receives (Rendezvous::may_ask()).
    constexpr std::uint32_t kAnswer = 1;
    const std::uint32_t sure = std::min(depth, Credits::kSure);
    HBMWIRE_TRY(receives_.join(*pool, sure + kCredit + kAnswer));
    rendezvous_.set_sure(kAnswer);
    credits_.lend(sure + receives_.take_at_first(depth - sure));
  }
  // A held send queue has no lane yet: take_lane() is called when it has.
  return endpoint_.sends.is_held() ? Result<void>() : take_lane();
}

Result<void> Messages::take_lane() {
  transport::Lane& lane = endpoint_.sends.lane();
  if (!receives_.are_shared()) {
    return receives_.make_own(endpoint_.worker->context, endpoint_.worker_nic, lane, inbox_,
                              receive_bytes(endpoint_.options.eager_bytes), own_receives());
  }
  receives_.set_lane(lane, inbox_);
  return {};
}

void Messages::connect(std::uint32_t places, std::uint32_t most, std::uint32_t eager_bytes,
                       std::uint64_t longest_message) noexcept {
  credits_.connect(places, most);
  // A message that is sent at once cannot be cut into pieces.
  const std::uint64_t longest = std::max(longest_message, std::uint64_t{wire::kMessageHeaderBytes});
  eager_bytes_ = static_cast<std::uint32_t>(
      std::min<std::uint64_t>({eager_bytes_, eager_bytes, longest - wire::kMessageHeaderBytes}));
}

void Messages::mark_failed() noexcept {
  credits_.end();
  while (TransferState* const receive = inbox_.take_any_receive()) {
    receive->receives = false;
    receive->then = Then::over;  // no message has matched it, so there is nothing to flush
    endpoint_.ending.mark_failed(*receive);
  }
  // Each of these transfers has a part that only the peer, or the send queue, could have ended. Its
  // requests may still succeed, but that does not make it a success.
  const auto end_part = [&](TransferState& transfer) {
    if (transfer.then == Then::over) transfer.then = Then::cut;
    if (--transfer.parts == 0 && !transfer.waiting) endpoint_.go_on(transfer);
  };
  outbox_.clear(end_part);
  rendezvous_.clear(end_part);
}

void Messages::fail_receives(const Error& why) noexcept {
  credits_.end();
  while (TransferState* const receive = inbox_.take_any_receive())
    endpoint_.worker->fail(*receive, why, /*settled=*/true);
}

bool Messages::cancel_receive(TransferState& transfer, const Error& why) noexcept {
  if (!inbox_.cancel(transfer)) return false;
  endpoint_.worker->fail(transfer, why, /*settled=*/true);
  return true;
}

}  // namespace hbmwire::detail

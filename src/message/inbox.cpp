// SPDX-License-Identifier: MIT
#include "message/inbox.hpp"

#include <utility>

#include "base/log.hpp"
#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

Inbox::Inbox(EndpointState& endpoint, Receives& receives, Credits& credits, Outbox& outbox,
             Rendezvous& rendezvous, const EndpointOptions& options)
    : endpoint_(endpoint),
      receives_(receives),
      credits_(credits),
      outbox_(outbox),
      rendezvous_(rendezvous),
      matching_(options.receive_depth, options.unexpected_bytes),
      longest_(Messages::receive_bytes(options.eager_bytes)),
      hands_out_(options.messages == MessageMode::handed_out) {}

Inbox::~Inbox() {
  // A child by fork(2) posts nothing to its parent's NIC.
  if (endpoint_.worker->made.is_inherited()) return;
  drop_queued();
  while (UnexpectedMessage* const message = matching_.take_any_message())
    give_back(nullptr, message);
}

void Inbox::set_pool(UnexpectedPool& pool) noexcept {
  guarded_ = endpoint_.paths.by_tcp();
  matching_.set_pool(pool);
}

bool Inbox::cancel(const TransferState& receive) noexcept {
  return receive.receives && matching_.cancel(receive);
}

void Inbox::warn_of_copies() noexcept {
  if (!copied_to_device_ || std::exchange(warned_, true)) return;
  log_line(LogLevel::warn, [&] {
    return "messages from " + endpoint_.peer +
           " come at once and are carried to device memory by the NIC, not zero-copy; "
           "PathPolicy::require zero_copy or EndpointOptions::eager_bytes 0 make them come by "
           "rendezvous";
  });
}

}  // namespace hbmwire::detail

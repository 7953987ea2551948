// SPDX-License-Identifier: MIT
#include "message/inbox.hpp"

#include <utility>

#include "base/log.hpp"
#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

Inbox::Inbox(EndpointState& endpoint, Credits& credits, Outbox& outbox, Rendezvous& rendezvous,
             const EndpointOptions& options, std::uint32_t receives)
    : endpoint_(endpoint),
      credits_(credits),
      outbox_(outbox),
      rendezvous_(rendezvous),
      buffers_(receives, options.eager_bytes, options.receive_depth / 2),
      matching_(options.receive_depth) {}

std::uint64_t Inbox::memory_bytes() const noexcept {
  return buffers_.memory_bytes() +
         UnexpectedPool::units_for(endpoint_.options.unexpected_bytes) * UnexpectedPool::kUnitBytes;
}

Result<void> Inbox::set_memory(std::byte* memory, std::uint32_t local_key) {
  guarded_ = endpoint_.link != nullptr;
  buffers_.set_memory(*this, memory, local_key);
  // Each message that waits has a credit, or a place in the pool.
  matching_.make(memory + buffers_.memory_bytes(),
                 UnexpectedPool::units_for(endpoint_.options.unexpected_bytes),
                 endpoint_.options.receive_depth);
  if (endpoint_.worker_nic.mover == nullptr) return {};
  HBMWIRE_TRY_ASSIGN(for_mover_, endpoint_.worker_nic.mover->admit(memory, memory_bytes()));
  return {};
}

Result<void> Inbox::post_receives() { return buffers_.post_all(endpoint_.sends.lane()); }

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

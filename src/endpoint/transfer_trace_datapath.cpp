// SPDX-License-Identifier: MIT
#include <array>
#include <variant>

#include "endpoint/endpoint_state.hpp"
#include "endpoint/task.hpp"
#include "endpoint/transfer_trace.hpp"

namespace hbmwire::detail {

namespace {

using Clock = std::chrono::steady_clock;

std::int64_t ns_of(Clock::time_point at) noexcept {
  return std::chrono::nanoseconds(at.time_since_epoch()).count();
}

bool is_traced(const TransferState& transfer) noexcept {
  return (transfer.at_end & AtEnd::kTrace) != 0;
}

/// Null if the trace has ended.
TraceSlot* slot_of(const TransferState& transfer) noexcept {
  TransferPool& transfers = transfer.worker->transfers;
  TraceRing* const ring = is_traced(transfer) ? transfers.trace().ring() : nullptr;
  return ring == nullptr ? nullptr : &ring->slot(transfers.index_of(transfer));
}

/// Why the first transfer of its endpoint's queue could not be posted.
WaitedFor cause_of_wait(EndpointState& endpoint, const TransferState& transfer) noexcept {
  const EndpointMovers& movers = endpoint.movers;
  const Mover* const mover = transfer.mover;
  const bool by_nic = mover == &movers.piece || mover == &movers.list || mover == &movers.send;
  if (!by_nic) return endpoint.sends.fence_is_open() ? WaitedFor::fence : WaitedFor::mover;
  const bool sends = mover == &movers.send;
  const bool needs_credit = sends || transfer.operation.with_immediate;
  if (needs_credit && !endpoint.messages.has_credit()) return WaitedFor::credit;
  if (endpoint.sends.is_held() && !(sends && movers.ring.is_on())) return WaitedFor::lanes;
  return WaitedFor::room;
}

/// Names for the types of Payload. A transfer that only waited for room has none.
constexpr std::array<const char*, std::variant_size_v<Payload>> kMovers{
    "", "", "list", "message", "staged", "proxied", "copy", "ipc", "rails", "blocks", ""};

/// The name of the transfer's mover. Empty: one request of the NIC. For a task: its name.
const char* mover_of(const TransferState& transfer) noexcept {
  if (!transfer.moved) return "";
  if (transfer.path == Path::shared_memory && transfer.as<Copied>() != nullptr) return "";
  const Ticket* const ticket = transfer.as<Ticket>();
  return ticket != nullptr ? ticket->task->name() : kMovers[transfer.payload.index()];
}

}  // namespace

bool trace_asked(TransferState& transfer, Clock::time_point now) noexcept {
  TransferPool& transfers = transfer.worker->transfers;
  TraceRing* const ring = transfers.trace().ring();
  if (ring == nullptr) return false;
  transfer.at_end |= AtEnd::kTrace;
  ring->slot(transfers.index_of(transfer)) = {.asked_ns = ns_of(now)};
  return true;
}

void trace_posted(TransferState& transfer) noexcept {
  if (TraceSlot* const slot = slot_of(transfer); slot != nullptr)
    slot->posted_ns = ns_of(Clock::now());
}

void trace_queued(TransferState& transfer, bool behind) noexcept {
  TraceSlot* const slot = slot_of(transfer);
  // The transfer may have been posted at once.
  if (slot == nullptr || !transfer.waiting) return;
  slot->posted_ns = 0;
  slot->waited_for = behind ? WaitedFor::order : cause_of_wait(*transfer.endpoint, transfer);
}

void trace_unmatched(TransferState& transfer) noexcept {
  TraceSlot* const slot = slot_of(transfer);
  if (slot == nullptr) return;
  slot->posted_ns = 0;
  slot->waited_for = WaitedFor::message;
}

void trace_over(const TransferState& transfer) noexcept {
  WorkerState& worker = *transfer.worker;
  TraceRing* const ring = worker.transfers.trace().ring();
  if (ring == nullptr) return;
  const TraceSlot& slot = ring->slot(worker.transfers.index_of(transfer));
  // The transfer began under an earlier trace.
  if (slot.asked_ns < ring->begun_ns()) return;
  TraceRecord record{.times = slot,
                     .over_ns = ns_of(Clock::now()),
                     .bytes = transfer.bytes,
                     .kind = to_string(transfer.kind).data(),
                     .by = mover_of(transfer),
                     .connection = transfer.connection,
                     .path_record = transfer.record,
                     .path = worker.labels.path_of(transfer),
                     .protocol = transfer.protocol};
  record.remote_type = transfer.remote == kUnknownRemote
                           ? TraceRecord::kUnknownType
                           : static_cast<std::uint8_t>(type_of(transfer.remote));
  if (transfer.status == TransferState::Status::failed) {
    const Error& why = worker.transfers.error_of(transfer);
    record.failed = true;
    record.call = why.call;
    record.error_number = why.number;
    record.code = why.code;
    record.stage = why.stage;
    record.number_kind = why.number_kind;
    record.hint = why.hint;
  }
  ring->push(record);
}

}  // namespace hbmwire::detail

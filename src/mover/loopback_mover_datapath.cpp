// SPDX-License-Identifier: MIT
#include <array>
#include <bit>
#include <span>
#include <utility>

#include "endpoint/transfer_counts_datapath.hpp"

namespace hbmwire::detail {

void LoopbackMover::start(TransferState& transfer, std::uint32_t remote_key) noexcept {
  transfer.operation.remote_key = remote_key;
  ++transfer.parts;
  if (transfer.endpoint != nullptr) ++transfer.endpoint->movers.moving;
  transfer.next = nullptr;
  (first_waiting == nullptr ? first_waiting : last_waiting->next) = &transfer;
  last_waiting = &transfer;
  post_waiting();
}

void LoopbackMover::make_visible(TransferState& transfer) noexcept {
  if (!transfer.flush_next()) start(transfer, /*remote_key=*/0);
}

void LoopbackMover::post_waiting() noexcept {
  while (first_waiting != nullptr && outstanding < kJobs && !broken && !completions->lost()) {
    TransferState& transfer = *first_waiting;
    first_waiting = transfer.next;
    if (const int result = post(transfer); result != 0) {
      note(transfer, transport::post_error(result, nic.info().name));
      finish(transfer, transfer.endpoint);
    }
  }
}

/// Posts a job. A result other than 0: nothing of it is posted.
int LoopbackMover::post(TransferState& transfer) noexcept {
  const transport::Operation& operation = transfer.operation;
  MoverJob& job = jobs[head % kJobs];
  transport::Operation bring;
  transport::Operation flush;
  flush.local = operation.local + operation.length - 1;
  flush.local_key = operation.local_key;
  flush.length = 1;
  flush.remote = reinterpret_cast<std::uint64_t>(&scratch);
  flush.remote_key = scratch_region.get()->rkey;
  const Message* const message = transfer.as<Message>();
  if (message != nullptr) {
    bring.opcode = transport::Opcode::read;
    bring.local = operation.local;
    bring.local_key = operation.local_key;
    bring.length = operation.length;
    bring.remote = reinterpret_cast<std::uint64_t>(message->record->bytes);
    bring.remote_key = operation.remote_key;
    // The fence makes the READ wait until the message has arrived.
    flush.fenced = true;
  }
  const std::array<transport::Request, 2> chain{
      {{bring, transport::to_id(&job, transport::Tag::moving), false},
       {flush, transport::to_id(&job, transport::Tag::moved)}}};
  bool begun = false;
  const int result = asks->post(std::span(chain).subspan(message != nullptr ? 0 : 1), begun);
  if (result != 0 && !begun) return result;
  job.transfer = &transfer;
  job.endpoint = transfer.endpoint;
  ++head;
  ++outstanding;
  if (begun) [[unlikely]]
    fail_midway(job, flush, result);
  return 0;
}

/// The lane took the READ that brings a message, but not the flush behind it.
void LoopbackMover::fail_midway(MoverJob& job, const transport::Operation& last,
                                int result) noexcept {
  note(*job.transfer, transport::post_error(result, nic.info().name));
  break_off();
  // The queue pair carries out nothing more. This request comes back behind the others, and ends
  // the job. If the queue has no room for it, look_after() destroys the queue pair after a while.
  static_cast<void>(asks->post(last, transport::to_id(&job, transport::Tag::moved)));
}

void LoopbackMover::break_off() noexcept {
  broken = true;
  if (!trouble_since) trouble_since = Clock::now();
  seen_at = Clock::now();
  looks = 0;
  static_cast<void>(asks->to_error());
}

void LoopbackMover::on_moved(MoverJob& job, const transport::Completion& completion,
                             bool last) noexcept {
  if (job.transfer == nullptr) [[unlikely]]
    return;  // its transfer was ended by cut()
  TransferState& transfer = *job.transfer;
  const bool good = completion.good();
  // A flushed request did not fail itself. Another one failed, and nothing of this one was done.
  const bool flushed = completion.status == transport::CompletionStatus::flushed;
  if (!good && !broken) [[unlikely]]
    break_off();
  if (!good && !flushed) [[unlikely]]
    note(transfer, transport::completion_error(completion, nic.info().name));
  if (!last) return;
  job.transfer = nullptr;
  --outstanding;
  if (good) [[likely]]
    trouble_since.reset();
  const bool failed = transfer.then == TransferState::Then::fail;
  if (flushed && !failed && Clock::now() - *trouble_since <= kPatience) {
    wait_again(transfer);
  } else {
    if (flushed) note(transfer, transport::completion_error(completion, nic.info().name));
    finish(transfer, job.endpoint);
  }
  post_waiting();
}

void LoopbackMover::wait_again(TransferState& transfer) noexcept {
  // Goes to the end of the queue, since jobs have no order among themselves.
  transfer.next = nullptr;
  (first_waiting == nullptr ? first_waiting : last_waiting->next) = &transfer;
  last_waiting = &transfer;
}

/// Keeps the first error, which says why.
void LoopbackMover::note(TransferState& transfer, const Error& error) noexcept {
  if (transfer.then == TransferState::Then::fail) return;
  transfer.worker->transfers.set_error(transfer, error);
  transfer.then = TransferState::Then::fail;
}

/// A job is over, well or with the error of note().
void LoopbackMover::finish(TransferState& transfer, EndpointState* endpoint) noexcept {
  WorkerState& worker = *transfer.worker;
  --transfer.parts;
  if (endpoint != nullptr) {
    --endpoint->movers.moving;
    const bool failed = transfer.then == TransferState::Then::fail;
    const auto phase = endpoint->phase;
    // The transfer fails with its endpoint, whose error says more.
    if (failed && (phase == EndpointPhase::ending || phase == EndpointPhase::failed))
      transfer.then = TransferState::Then::cut;
    endpoint->on_moved(transfer);
  } else if (transfer.then == TransferState::Then::fail) {
    worker.fail(transfer, Error(worker.transfers.error_of(transfer)), /*settled=*/true);
  } else {
    worker.succeed(transfer);
  }
}

}  // namespace hbmwire::detail

// SPDX-License-Identifier: MIT
#include "mover/engine_mover.hpp"

#include <algorithm>
#include <utility>

#include "base/guarded.hpp"
#include "endpoint/endpoint_state.hpp"
#include "endpoint/send_queue_datapath.hpp"

namespace hbmwire::detail {

namespace {

const Copied& copied_of(const TransferState& transfer) noexcept {
  const Ipc* const ipc = transfer.as<Ipc>();
  return ipc != nullptr ? ipc->copied : *transfer.as<Copied>();
}

}  // namespace

bool EngineMover::goes_on() const noexcept {
  return endpoint_.phase == EndpointPhase::ready && !job_->error && !is_given_up();
}

/// Makes the transfer the one under way. False: there is no memory, and the endpoint has failed.
bool EngineMover::begin_job(TransferState& transfer) noexcept {
  WorkerState& worker = *endpoint_.worker;
  const auto listed = guarded(Stage::complete, [&]() -> Result<void> {
    worker.at_engines.push_back(this);
    return {};
  });
  if (!listed) {
    endpoint_.fail(listed.error(), &transfer);
    return false;
  }
  job_.emplace(Job{
      .transfer = transfer, .memory = transfer.region->allocation, .slot = endpoint_.sends.head()});
  ++transfer.parts;
  ++endpoint_.movers.moving;
  ++worker.staged;
  return true;
}

bool EngineMover::advance(TransferState& transfer) noexcept {
  if (!job_ && !begin_job(transfer)) return false;
  return run();
}

/// Does all steps that are possible now. True: the job is over.
bool EngineMover::run() noexcept {
  while (job_->state != State::over) {
    if (!step(*job_)) return false;
    ++endpoint_.worker->event_count;
  }
  return true;
}

/// Does the next step. False: something else must happen first. A copy that the NIC or the engine
/// has is waited for, whatever has become of the endpoint.
bool EngineMover::step(Job& job) noexcept {
  switch (job.state) {
    case State::waiting:
      return start_next(job);
    case State::flushing:
      if (!endpoint_.sends.is_over_before(job.slot)) return false;
      job.state = State::waiting;
      return true;
    case State::copying:
      if (!has_ended(job)) return false;
      if (!goes_on() || !job.transfer.operation.with_immediate) {
        job.state = State::over;
        return true;
      }
      // The bytes have arrived: an empty WRITE carries the immediate. If it cannot be posted
      // because the endpoint has failed, the job is over in the next step.
      if (endpoint_.movers.ring.is_on()) {
        const transport::Operation& what = job.transfer.operation;
        const bool as_by_nic = job.transfer.path == Path::shared_memory;
        if (!endpoint_.messages.tell_by_ring(what.immediate, as_by_nic ? what.length : 0))
          return false;
      } else if (!endpoint_.post_immediate(job.transfer)) {
        return false;
      }
      job.slot = endpoint_.sends.head();
      job.state = State::telling;
      return true;
    case State::telling:
      if (!endpoint_.sends.is_over_before(job.slot)) return false;
      job.state = State::over;
      return true;
    case State::over:
      break;
  }
  return true;
}

/// step() for a job in State::waiting.
bool EngineMover::start_next(Job& job) noexcept {
  const bool others_move = endpoint_.movers.moving != 1;  // 1: this job
  if (!goes_on()) {
    job.state = State::over;
  } else if (!endpoint_.sends.is_over_before(job.slot) ||
             (is_behind_fence() && endpoint_.sends.fence_holds_back(others_move))) {
    return false;
  } else if (wrote_before(job.transfer)) {
    if (!endpoint_.sends.has_room(SendQueue::kRequestsOfPost)) return false;
    flush(job);
  } else {
    job.state = State::copying;
    begin(job);
  }
  return true;
}

/// Whether the NIC wrote to memory of engines before the transfer was started, so that a flush is
/// needed.
bool EngineMover::wrote_before(const TransferState& transfer) const noexcept {
  if (type_of(transfer.remote) == MemoryType::host || !is_by_nic(path_of(transfer.remote)))
    return false;
  return copied_of(transfer).writes_before > endpoint_.movers.engine_writes.flushed();
}

/// Reads a byte of the peer's memory by the NIC, which pushes earlier writes of NICs ahead of it
/// (docs/adr/0005).
void EngineMover::flush(Job& job) noexcept {
  if (const auto may = check_flush(job); !may) {
    job.error = may.error();
    return;
  }
  const transport::Operation read = endpoint_.worker_nic.read_back(
      job.transfer.operation.remote, job.transfer.operation.remote_key);
  const int result = endpoint_.sends.post(read, &job.transfer);
  job.slot = endpoint_.sends.head();
  job.state = State::flushing;
  if (result != 0) return endpoint_.fail_post(result, &job.transfer);
  endpoint_.movers.engine_writes.note_flush(copied_of(job.transfer).writes_before);
}

/// A job that only waits for the peer's answer is not polled, so that threads can sleep.
void EngineMover::set_polled(bool polled) noexcept {
  if (!job_ || std::exchange(job_->polled, polled) == polled) return;
  if (polled) {
    ++endpoint_.worker->staged;
  } else {
    --endpoint_.worker->staged;
  }
}

EngineMover::Job EngineMover::take_out() noexcept {
  // Counts the job in, since it is counted out below whether it was polled or not.
  set_polled(true);
  WorkerState& worker = *endpoint_.worker;
  std::erase(worker.at_engines, this);
  Job job = *std::exchange(job_, std::nullopt);
  --worker.staged;
  --job.transfer.parts;
  --endpoint_.movers.moving;
  return job;
}

bool EngineMover::finish(TransferState& transfer) noexcept {
  // Taken out at once, since the job keeps the memory allocated.
  const std::optional<Error> error = take_out().error;
  WorkerState& worker = *endpoint_.worker;
  if (error && endpoint_.phase == EndpointPhase::ready) {
    worker.transfers.set_error(transfer, *error);
    transfer.then = Then::fail;
  }
  ++worker.event_count;
  endpoint_.on_moved(transfer);
  return !error;
}

std::size_t EngineMover::progress() noexcept {
  const std::uint64_t before = endpoint_.worker->event_count;
  if (endpoint_.phase == EndpointPhase::ready) {
    endpoint_.post_waiting();
  } else if (run()) {
    finish(job_->transfer);
  }
  return static_cast<std::size_t>(endpoint_.worker->event_count - before);
}

void EngineMover::drain(const Error& why) noexcept {
  wait();
  TransferState& transfer = take_out().transfer;
  WorkerState& worker = *endpoint_.worker;
  worker.transfers.set_error(transfer, why);
  transfer.then = Then::fail;
  ++worker.event_count;
  endpoint_.on_moved(transfer);
}

}  // namespace hbmwire::detail

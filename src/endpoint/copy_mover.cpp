// SPDX-License-Identifier: MIT
#include "endpoint/copy_mover.hpp"

#include <algorithm>
#include <utility>

#include "endpoint/endpoint_state.hpp"
#include "transport/copy/engine_copy.hpp"

namespace hbmwire::detail {

namespace {

using State = CopyJob::State;
using Then = TransferState::Then;

bool goes_on(const CopyJob& job) noexcept {
  return job.endpoint->phase == EndpointPhase::ready && !job.error;
}

Access needed(const TransferState& transfer) noexcept {
  return transfer.operation.opcode == IBV_WR_RDMA_READ ? Access::remote_read : Access::remote_write;
}

}  // namespace

CopyMover::Jobs::iterator CopyMover::find(const TransferState& transfer) noexcept {
  return std::ranges::find(jobs_, &transfer, [](const auto& job) { return job->transfer; });
}

CopyJob& CopyMover::job_of(TransferState& transfer) {
  if (const auto known = find(transfer); known != jobs_.end()) return **known;
  EndpointState& endpoint = *transfer.endpoint;
  jobs_.push_back(std::make_unique<CopyJob>(CopyJob{.transfer = &transfer,
                                                    .endpoint = &endpoint,
                                                    .memory = transfer.region->allocation,
                                                    .slot = endpoint.head}));
  ++transfer.parts;
  ++endpoint.moving;
  ++worker_.staged;
  return *jobs_.back();
}

bool CopyMover::go_on(TransferState& transfer) noexcept {
  CopyJob& job = job_of(transfer);
  while (job.state != State::over) {
    if (!step(job)) return false;
    ++worker_.happenings;
  }
  return true;
}

/// False: somebody else has to do something first. What is with the NIC or the engine is waited
/// for, whatever has become of the endpoint.
bool CopyMover::step(CopyJob& job) noexcept {
  EndpointState& endpoint = *job.endpoint;
  switch (job.state) {
    case State::waiting: {
      // What others move of this endpoint's is in no order with it, unless that was asked for.
      const bool fenced = job.transfer->operation.fenced && endpoint.moving != 1;
      if (!goes_on(job)) {
        job.state = State::over;
      } else if (!endpoint.gave_back_before(job.slot) || fenced) {
        return false;
      } else if (endpoint.wrote_before_copy(*job.transfer)) {
        if (endpoint.room < 2) return false;
        flush(job);
      } else {
        copy(job);
      }
      return true;
    }
    case State::flushing:
      if (!endpoint.gave_back_before(job.slot)) return false;
      job.state = State::waiting;
      return true;
    case State::copying:
      if (!ask_engine(job)) return false;
      if (!goes_on(job) || !job.transfer->operation.with_immediate) {
        job.state = State::over;
        return true;
      }
      // The bytes are there: a write of nothing brings the immediate. Where that fails the endpoint
      // has, and it is over the next time.
      if (!endpoint.post_immediate(*job.transfer)) return false;
      job.slot = endpoint.head;
      job.state = State::telling;
      return true;
    case State::telling:
      if (!endpoint.gave_back_before(job.slot)) return false;
      job.state = State::over;
      return true;
    case State::over:
      break;
  }
  return true;
}

/// A NIC's read of the peer's memory pushes what NICs wrote there before it (docs/adr/0005).
void CopyMover::flush(CopyJob& job) noexcept {
  EndpointState& endpoint = *job.endpoint;
  const transport::Operation& what = job.transfer->operation;
  // A key that has ended is this transfer's failure; the NIC would make it the endpoint's.
  const auto valid = ExportHold::take(what.compare_or_add, Access::remote_read, what.remote, 1);
  if (!valid) {
    job.error = valid.error();
    return;
  }
  const int result = endpoint.post_flush(*job.transfer);
  job.slot = endpoint.head;
  job.state = State::flushing;
  if (result == 0) return;
  endpoint.fail(system_error(Stage::post, "ibv_post_send", result, endpoint.nic->info.name),
                job.transfer);
}

void CopyMover::copy(CopyJob& job) noexcept {
  const transport::Operation& what = job.transfer->operation;
  const auto start = [&]() -> Result<void> {
    HBMWIRE_TRY_ASSIGN(ExportHold hold, ExportHold::take(what.compare_or_add, needed(*job.transfer),
                                                         what.remote, what.length));
    const Allocation theirs = hold.memory().allocation;
    const transport::CopyPlace here{job.memory.domain(), what.local};
    const transport::CopyPlace there{theirs.domain(), what.remote};
    const bool gets = what.opcode == IBV_WR_RDMA_READ;
    HBMWIRE_TRY_ASSIGN(
        PendingCopy copy,
        transport::start_engine_copy(gets ? there : here, gets ? here : there, what.length));
    hold.watch(std::move(copy));
    job.hold.emplace(std::move(hold));
    return {};
  };
  if (const auto started = start(); !started) job.error = started.error();
  job.state = State::copying;
}

/// Whether the engine is done; then nothing holds the peer's key.
bool CopyMover::ask_engine(CopyJob& job) noexcept {
  if (!job.hold) return true;
  const auto done = job.hold->poll();
  if (done && !*done) return false;
  if (!done) job.error = done.error();
  job.hold.reset();
  return true;
}

void CopyMover::finish(TransferState& transfer) noexcept {
  const auto place = find(transfer);
  // Goes at once: it keeps the memory allocated.
  const std::unique_ptr<CopyJob> job = std::move(*place);
  jobs_.erase(place);
  EndpointState& endpoint = *job->endpoint;
  if (job->error && endpoint.phase == EndpointPhase::ready) {
    worker_.errors[worker_.index_of(transfer)] = *job->error;
    transfer.then = Then::fail;
  }
  over(transfer, endpoint);
}

void CopyMover::over(TransferState& transfer, EndpointState& endpoint) noexcept {
  --worker_.staged;
  --transfer.parts;
  --endpoint.moving;
  ++worker_.happenings;
  endpoint.on_moved(transfer);
}

std::size_t CopyMover::progress() noexcept {
  const std::uint64_t before = worker_.happenings;
  // One that is over leaves the list; who follows it is asked the next time.
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    CopyJob& job = *jobs_[i];
    if (job.endpoint->phase == EndpointPhase::ready) {
      job.endpoint->post_waiting();
    } else if (go_on(*job.transfer)) {
      finish(*job.transfer);
    }
  }
  return static_cast<std::size_t>(worker_.happenings - before);
}

void CopyMover::end(const Error& why) noexcept {
  while (!jobs_.empty()) {
    const std::unique_ptr<CopyJob> job = std::move(jobs_.back());
    jobs_.pop_back();
    job->hold.reset();  // waits
    worker_.errors[worker_.index_of(*job->transfer)] = why;
    job->transfer->then = Then::fail;
    over(*job->transfer, *job->endpoint);
  }
}

}  // namespace hbmwire::detail

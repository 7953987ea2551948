// SPDX-License-Identifier: MIT
#include "mover/copy_mover.hpp"

#include <algorithm>
#include <utility>

#include "base/guarded.hpp"
#include "endpoint/endpoint_state.hpp"
#include "transport/copy/engine_copy.hpp"

namespace hbmwire::detail {

namespace {

using State = CopyJob::State;
using Then = TransferState::Then;

bool goes_on(const CopyJob& job) noexcept {
  return job.endpoint->phase == EndpointPhase::ready && !job.error && !job.not_by_ipc;
}

Access needed(const TransferState& transfer) noexcept {
  return transfer.operation.opcode == transport::Opcode::read ? Access::remote_read
                                                              : Access::remote_write;
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
  const auto found =
      guarded(Stage::complete, [&]() -> Result<CopyJob*> { return &job_of(transfer); });
  if (!found) {
    transfer.endpoint->fail(found.error(), &transfer);
    return false;
  }
  CopyJob& job = **found;
  while (job.state != State::over) {
    if (!step(job)) return false;
    ++worker_.event_count;
  }
  return true;
}

/// Step by step, as step().
bool CopyMover::start(CopyJob& job) noexcept {
  EndpointState& endpoint = *job.endpoint;
  if (!goes_on(job)) {
    job.state = State::over;
  } else if (!endpoint.gave_back_before(job.slot) || endpoint.fence_holds_back(1)) {
    return false;
  } else if (endpoint.wrote_before_copy(*job.transfer)) {
    if (endpoint.room() < 2) return false;
    flush(job);
  } else if (job.transfer->path == Path::ipc) {
    ask_peer(job);
  } else {
    copy(job);
  }
  return true;
}

/// False: somebody else has to do something first. What is with the NIC or the engine is waited
/// for, whatever has become of the endpoint.
bool CopyMover::step(CopyJob& job) noexcept {
  EndpointState& endpoint = *job.endpoint;
  switch (job.state) {
    case State::waiting:
      return start(job);
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
  if (job.transfer->path == Path::copy) {
    const auto valid = ExportHold::take(what.compare_or_add, Access::remote_read, what.remote, 1);
    if (!valid) {
      job.error = valid.error();
      return;
    }
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
    const bool gets = what.opcode == transport::Opcode::read;
    HBMWIRE_TRY_ASSIGN(
        PendingCopy copy,
        transport::start_engine_copy(gets ? there : here, gets ? here : there, what.length));
    hold.watch(std::move(copy));
    job.hold.emplace(std::move(hold));
    return {};
  };
  if (const auto started = guarded(Stage::copy, start); !started) job.error = started.error();
  job.state = State::copying;
}

void CopyMover::ask_peer(CopyJob& job) noexcept {
  EndpointState& endpoint = *job.endpoint;
  const transport::Operation& what = job.transfer->operation;
  job.state = State::copying;
  if (endpoint.ending.peer_left()) {
    endpoint.fail(make_error(Errc::peer_failed, Stage::complete, "the peer has said goodbye",
                             endpoint.peer, Hint::peer_gone),
                  job.transfer);
    return;
  }
  auto handle = job.memory.domain().ipc_handle(what.local, what.length);
  if (!handle) {
    // A shortage passes, and is no reason to go another way for good.
    (is_shortage(handle.error()) ? job.error : job.not_by_ipc) = handle.error();
    return;
  }
  job.asked = endpoint.next_ipc_copy();
  look(job, false);
  endpoint.control.say(wire::IpcCopy{.id = job.asked,
                                     .put = what.opcode != transport::Opcode::read,
                                     .token = what.compare_or_add,
                                     .address = what.remote,
                                     .handle = *handle});
}

/// What waits for the peer's word alone wakes nobody.
void CopyMover::look(CopyJob& job, bool looks) noexcept {
  if (std::exchange(job.looks, looks) == looks) return;
  if (looks) {
    ++worker_.staged;
  } else {
    --worker_.staged;
  }
}

bool CopyMover::asks(const EndpointState& endpoint) const noexcept {
  return std::ranges::any_of(
      jobs_, [&](const auto& job) { return job->endpoint == &endpoint && job->asked != 0; });
}

bool CopyMover::on_copied(EndpointState& endpoint, const wire::IpcCopied& answer) noexcept {
  const auto place = std::ranges::find_if(jobs_, [&](const auto& job) {
    return job->endpoint == &endpoint && job->asked == answer.id && answer.id != 0;
  });
  if (place == jobs_.end()) return false;
  CopyJob& job = **place;
  job.asked = 0;
  look(job, true);
  if (answer.outcome == wire::IpcCopied::Outcome::unopened) {
    job.not_by_ipc = make_error(
        Errc::not_supported, Stage::open,
        "the peer's process could not open this end's memory; its log says why", endpoint.peer);
  } else if (answer.outcome == wire::IpcCopied::Outcome::failed) {
    job.error = endpoint.refusal_of(wire::MessageHeader::Outcome::refused);
  } else if (answer.outcome == wire::IpcCopied::Outcome::denied) {
    // As where a NIC finds that out.
    endpoint.fail(endpoint.refusal_of(wire::MessageHeader::Outcome::denied), job.transfer);
  }
  return true;
}

void CopyMover::on_ending(EndpointState& endpoint) noexcept {
  for (const auto& job : jobs_) {
    if (job->endpoint == &endpoint) look(*job, true);
  }
}

/// Whether the engine is done; then nothing holds the peer's key, nor this end's memory.
bool CopyMover::ask_engine(CopyJob& job) noexcept {
  if (job.asked != 0) return job.endpoint->no_ipc_goes_on(worker_.now);
  if (!job.hold) return true;
  const auto done = job.hold->poll();
  if (done && !*done) return false;
  if (!done) job.error = done.error();
  job.hold.reset();
  return true;
}

std::unique_ptr<CopyJob> CopyMover::take_out(TransferState& transfer) noexcept {
  const auto place = find(transfer);
  std::unique_ptr<CopyJob> job = std::move(*place);
  jobs_.erase(place);
  look(*job, true);
  return job;
}

std::optional<Error> CopyMover::turn_back(TransferState& transfer) noexcept {
  if (!transfer.fallback.possible || !(*find(transfer))->not_by_ipc) return std::nullopt;
  const std::unique_ptr<CopyJob> job = take_out(transfer);
  --worker_.staged;
  --transfer.parts;
  --job->endpoint->moving;
  return job->not_by_ipc;
}

void CopyMover::finish(TransferState& transfer) noexcept {
  // Goes at once: it keeps the memory allocated.
  const std::unique_ptr<CopyJob> job = take_out(transfer);
  EndpointState& endpoint = *job->endpoint;
  if (job->not_by_ipc && !job->error) job->error = job->not_by_ipc;
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
  ++worker_.event_count;
  endpoint.on_moved(transfer);
}

std::size_t CopyMover::progress() noexcept {
  const std::uint64_t before = worker_.event_count;
  // One that is over leaves the list; who follows it is asked the next time.
  // NOLINTNEXTLINE(modernize-loop-convert)
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    CopyJob& job = *jobs_[i];
    if (job.endpoint->phase == EndpointPhase::ready) {
      job.endpoint->post_waiting();
    } else if (go_on(*job.transfer)) {
      finish(*job.transfer);
    }
  }
  return static_cast<std::size_t>(worker_.event_count - before);
}

void CopyMover::end(const Error& why) noexcept {
  while (!jobs_.empty()) {
    const std::unique_ptr<CopyJob> job = take_out(*jobs_.back()->transfer);
    job->hold.reset();  // waits
    worker_.errors[worker_.index_of(*job->transfer)] = why;
    job->transfer->then = Then::fail;
    over(*job->transfer, *job->endpoint);
  }
}

}  // namespace hbmwire::detail

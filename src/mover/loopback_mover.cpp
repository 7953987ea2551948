// SPDX-License-Identifier: MIT
#include "mover/loopback_mover.hpp"

#include <algorithm>
#include <utility>

#include "base/guarded.hpp"
#include "base/log.hpp"
#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

namespace {

std::vector<MoverJob> jobs_of(LoopbackMover& mover) {
  std::vector<MoverJob> jobs(LoopbackMover::kJobs);
  for (MoverJob& job : jobs) job.mover = &mover;
  return jobs;
}

}  // namespace

LoopbackMover::LoopbackMover(Nic nic_of) : nic(std::move(nic_of)), jobs(jobs_of(*this)) {}

Result<std::unique_ptr<LoopbackMover>> LoopbackMover::create(
    const Nic& nic, transport::VerbsCompletionQueue& completions) {
  auto mover = std::make_unique<LoopbackMover>(nic);
  HBMWIRE_TRY_ASSIGN(mover->pd, verbs::allocate_domain(state_of(nic)));
  HBMWIRE_TRY_ASSIGN(mover->scratch_region,
                     verbs::register_host(state_of(nic), mover->pd, &mover->scratch,
                                          sizeof mover->scratch, Access::remote_write));
  mover->make_spare();
  HBMWIRE_TRY(mover->connect(completions));
  return mover;
}

Result<void> LoopbackMover::connect(transport::VerbsCompletionQueue& on) {
  completions = &on;
  HBMWIRE_TRY_ASSIGN(
      asks, transport::VerbsLane::create(nic, on, {.send_depth = kRequests, .receive_depth = 1}));
  HBMWIRE_TRY_ASSIGN(
      answers,
      transport::VerbsLane::create(
          nic, on, {.send_depth = 1, .receive_depth = 1, .inline_bytes = 0, .pd = pd.get()}));
  verbs::Wiring wiring;
  const DeviceLimits& limits = state_of(nic).limits;
  // The two queue pairs are each other's peers, so both limits are this NIC's.
  wiring.reads_in = reads_of(limits.reads_in);
  wiring.reads_out = std::min(reads_of(limits.reads_out), wiring.reads_in);
  for (const bool other : {false, true}) {
    transport::Lane& lane = other ? *answers : *asks;
    wiring.local = lane.local();
    wiring.remote = (other ? *asks : *answers).local();
    HBMWIRE_TRY(lane.connect(wiring));
  }
  return {};
}

Result<verbs::Mr> LoopbackMover::admit(std::byte* memory, std::uint64_t bytes) const {
  return verbs::register_host(state_of(nic), pd, memory, bytes, Access::remote_read);
}

/// Makes the jobs that cut() puts in place of `jobs`.
void LoopbackMover::make_spare() {
  if (!spare_jobs.empty()) return;
  left_jobs.reserve(left_jobs.size() + 1);
  spare_jobs = jobs_of(*this);
}

/// connect() by other queue pairs, and on another completion queue if the old one is lost.
Result<void> LoopbackMover::connect_again(WorkerState& worker) {
  make_spare();
  asks.reset();
  answers.reset();
  if (!completions->lost()) return connect(*completions);
  const auto own = std::ranges::find_if(
      worker.nics, [&](const WorkerNic& candidate) { return candidate.mover.get() == this; });
  HBMWIRE_TRY_ASSIGN(transport::VerbsCompletionQueue* const other,
                     worker.completions_for(*own, kPlaces));
  return connect(*other);
}

void LoopbackMover::look_after(WorkerState& worker, Clock::time_point at) noexcept {
  // Nothing is with the NIC, or some jobs have ended since the last look.
  if (outstanding == 0 || head - outstanding != seen_over) {
    seen_over = head - outstanding;
    seen_at = at;
    looks = 0;
  }
  ++looks;
  const bool lost = completions->lost();
  if (idle() && !lost) return;
  // A broken queue pair only gives its requests back, which takes a NIC less time.
  const bool silent = looks > kLooks && at - seen_at > (broken ? kPatience : kSilence);
  // A lost queue brings nothing: mend() moves to another one, also if there are no jobs.
  if ((lost && !broken) || (outstanding != 0 && (silent || lost))) {
    completions->lose();
    cut(make_error(Errc::system, Stage::complete,
                   "the NIC does not complete its requests within this machine", nic.info().name,
                   Hint::completions_lost));
  }
  if (broken && outstanding == 0 && at >= mend_at) mend(worker, at);
}

/// Makes new queue pairs for the waiting jobs. If that fails for kPatience, these fail.
void LoopbackMover::mend(WorkerState& worker, Clock::time_point at) noexcept {
  mend_at = at + kMendAfter;
  if (!trouble_since) trouble_since = at;
  const auto connected = guarded(Stage::complete, [&] { return connect_again(worker); });
  if (!connected) {
    if (told.is_new(connected.error()))
      log_line(LogLevel::warn, [&] { return describe(connected.error()); });
    if (at - *trouble_since > kPatience) fail_waiting(connected.error());
    return;
  }
  if (first_waiting == nullptr) trouble_since.reset();
  told.forget();
  head = seen_over = 0;
  seen_at = at;
  looks = 0;
  broken = false;
  post_waiting();
}

/// Destroys the queue pairs: when this returns, nothing moves by them any more.
void LoopbackMover::cut(const Error& why) noexcept {
  broken = true;
  if (!trouble_since) trouble_since = Clock::now();
  asks.reset();
  answers.reset();
  const std::uint32_t count = std::exchange(outstanding, 0);
  // The spare jobs are used up, but nothing is posted before mend() has made others.
  if (count == 0) return;
  left_jobs.push_back(std::exchange(jobs, std::exchange(spare_jobs, {})));
  std::vector<MoverJob>& cut_short = left_jobs.back();
  for (std::uint32_t i = head - count; i != head; ++i) {
    MoverJob& job = cut_short[i % kJobs];
    TransferState& transfer = *std::exchange(job.transfer, nullptr);
    note(transfer, why);
    finish(transfer, job.endpoint);
  }
}

void LoopbackMover::fail_waiting(const Error& why) noexcept {
  while (first_waiting != nullptr) {
    TransferState& transfer = *first_waiting;
    first_waiting = transfer.next;
    note(transfer, why);
    finish(transfer, transfer.endpoint);
  }
}

void LoopbackMover::end(const Error& why) noexcept {
  cut(why);
  fail_waiting(why);
}

}  // namespace hbmwire::detail

// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "hbmwire/nic.hpp"

#include "base/told_cause.hpp"
#include "transport/verbs/lane.hpp"
#include "verbs/handles.hpp"

namespace hbmwire::detail {

struct EndpointState;
struct LoopbackMover;
struct TransferState;
struct WorkerState;

/// One job of the mover.
struct MoverJob {
  LoopbackMover* mover = nullptr;
  TransferState* transfer = nullptr;  // null: it is over
  EndpointState* endpoint = nullptr;  // null: no endpoint has it under way
};

/// A NIC of a worker that works on device memory of its own machine. It does two things: it reads a
/// byte of memory that NICs wrote, which makes the bytes visible to the device's engines
/// (docs/adr/0005); and it carries small messages into device memory. Neither asks anything of the
/// device's driver, or waits for it.
///
/// It has two connected queue pairs. The answering one is in a protection domain of its own, which
/// holds only host memory of the worker. No peer gets in there, whatever keys it guesses, and
/// regions need no remote access.
///
/// A job that fails breaks the queue pairs for the other jobs, too. Those have not failed
/// themselves, so they are posted again, on new queue pairs. That is bounded: when no job has
/// succeeded for kPatience since the first failure, all jobs fail.
struct LoopbackMover {
  using Clock = std::chrono::steady_clock;

  static Result<std::unique_ptr<LoopbackMover>> create(
      const Nic& nic, transport::VerbsCompletionQueue& completions);
  explicit LoopbackMover(Nic nic_of);

  static constexpr std::uint32_t kJobs = 64;
  static constexpr std::uint32_t kRequests = 2 * kJobs;  // a job brings a message, and flushes
  // Places in the completion queue: `answers` may send one, and both queue pairs have one receive.
  static constexpr int kPlaces = kRequests + 3;
  static constexpr std::chrono::milliseconds kPatience{1000};
  /// How long jobs may be with the NIC without any completion.
  static constexpr std::chrono::milliseconds kSilence{3000};
  /// At least this many looks must also pass: a thread that has not polled for long has not seen
  /// the completions.
  static constexpr unsigned kLooks = 64;
  static constexpr std::chrono::milliseconds kMendAfter{10};

  /// Registers host memory that holds messages to be carried.
  [[nodiscard]] Result<verbs::Mr> admit(std::byte* memory, std::uint64_t bytes) const;

  /// Makes the transfer's memory (TransferState::operation) visible to its device. If the transfer
  /// has a Message, carries it there first, by `remote_key` of admit().
  void start(TransferState& transfer, std::uint32_t remote_key) noexcept;

  /// Makes bytes that NICs wrote to this end's device for the transfer visible, by its mover's
  /// flushes if it has any.
  void make_visible(TransferState& transfer) noexcept;

  void on_moved(MoverJob& job, const transport::Completion& completion, bool last) noexcept;

  /// Repairs the mover after a failure, with another completion queue if its own is lost. Not on
  /// the data path.
  void look_after(WorkerState& worker, Clock::time_point at) noexcept;

  /// Ends the mover: nothing moves by it any more, and all its jobs fail with `why`.
  void end(const Error& why) noexcept;

  [[nodiscard]] bool idle() const noexcept {
    return !broken && outstanding == 0 && first_waiting == nullptr;
  }

  Result<void> connect(transport::VerbsCompletionQueue& completions);
  Result<void> connect_again(WorkerState& worker);
  void make_spare();
  void mend(WorkerState& worker, Clock::time_point at) noexcept;

  /// Puts the queue pairs into ERROR: all their jobs come back.
  void break_off() noexcept;
  void cut(const Error& why) noexcept;
  void fail_waiting(const Error& why) noexcept;
  void post_waiting() noexcept;
  int post(TransferState& transfer) noexcept;
  void fail_midway(MoverJob& job, const transport::Operation& last, int result) noexcept;
  void wait_again(TransferState& transfer) noexcept;
  static void note(TransferState& transfer, const Error& error) noexcept;
  void finish(TransferState& transfer, EndpointState* endpoint) noexcept;

  Nic nic;
  transport::VerbsCompletionQueue* completions = nullptr;
  verbs::Pd pd;
  std::uint64_t scratch = 0;  // flushes write a byte of it, which is never used
  verbs::Mr scratch_region;
  std::unique_ptr<transport::VerbsLane> asks;     // all jobs are posted here
  std::unique_ptr<transport::VerbsLane> answers;  // its peer, in `pd`
  std::vector<MoverJob> jobs;
  std::vector<MoverJob> spare_jobs;  // for cut(), which must not allocate
  std::uint32_t head = 0;            // jobs ever posted
  std::uint32_t outstanding = 0;     // of these, jobs that the NIC has
  TransferState* first_waiting = nullptr;
  TransferState* last_waiting = nullptr;
  bool broken = false;

  // State of look_after().
  std::optional<Clock::time_point> trouble_since;  // no job has succeeded since
  Clock::time_point mend_at{};
  std::uint32_t seen_over = 0;  // head - outstanding at `seen_at`; `looks` counts looks since then
  Clock::time_point seen_at{};
  unsigned looks = 0;
  ToldCause told;  // the trouble that the log has told
  // Jobs of queue pairs that were destroyed with requests under way. A completion queue may still
  // have completions of a destroyed queue pair, which point to these jobs.
  std::vector<std::vector<MoverJob>> left_jobs;
};

}  // namespace hbmwire::detail

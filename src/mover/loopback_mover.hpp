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

/// One use of the mover.
struct MoverJob {
  LoopbackMover* mover = nullptr;
  TransferState* transfer = nullptr;  // null: it is over
  EndpointState* endpoint = nullptr;  // null: none has it under way
};

/// A NIC of a worker on its own machine's device memory: it reads a byte of what NICs wrote, which
/// makes that visible to the device's engines (docs/adr/0005), and brings small messages there.
/// Neither asks anything of the device's driver, nor waits for it.
///
/// Two connected queue pairs, the answering one in a protection domain of its own, where nothing is
/// but host memory of the worker's: no peer, whatever keys it guesses, comes by there, and regions
/// need no remote access.
///
/// A job that fails breaks the queue pairs for the others, which is no fault of theirs: they go
/// again, by new ones. All of this has an end: when nothing has succeeded for kPatience since the
/// first failure, whatever is there fails.
struct LoopbackMover {
  using Clock = std::chrono::steady_clock;

  static Result<std::unique_ptr<LoopbackMover>> create(
      const Nic& nic, transport::VerbsCompletionQueue& completions);
  explicit LoopbackMover(Nic nic_of);

  static constexpr std::uint32_t kJobs = 64;
  static constexpr std::uint32_t kRequests = 2 * kJobs;
  static constexpr int kPlaces = kRequests + 3;  // of a completion queue
  static constexpr std::chrono::milliseconds kPatience{1000};
  /// Of jobs that are with the NIC, and about which it says nothing.
  static constexpr std::chrono::milliseconds kSilence{3000};
  /// And of so many looks: who has not polled for long has not heard what it says.
  static constexpr unsigned kLooks = 64;
  static constexpr std::chrono::milliseconds kMendAfter{10};

  /// Registers host memory to bring messages from.
  [[nodiscard]] Result<verbs::Mr> admit(std::byte* memory, std::uint64_t bytes) const;

  /// Makes the transfer's memory (TransferState::operation) visible to its device; before that
  /// brings its Message there, if it has one, by `remote_key` of admit().
  void start(TransferState& transfer, std::uint32_t remote_key) noexcept;

  /// Makes visible what NICs wrote to this end's device for the transfer, by its mover's flushes if
  /// it has any.
  void make_visible(TransferState& transfer) noexcept;

  void on_moved(MoverJob& job, const transport::Completion& completion, bool last) noexcept;

  /// Works again after a failure, by another completion queue where its own is lost. Not on the
  /// data path.
  void look_after(WorkerState& worker, Clock::time_point at) noexcept;

  /// Nothing moves by it any more, and all that it had fails with `why`.
  void end(const Error& why) noexcept;

  [[nodiscard]] bool idle() const noexcept {
    return !broken && outstanding == 0 && first_waiting == nullptr;
  }

  Result<void> connect(transport::VerbsCompletionQueue& completions);
  Result<void> connect_again(WorkerState& worker);
  void make_spare();
  void mend(WorkerState& worker, Clock::time_point at) noexcept;
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
  std::uint64_t scratch = 0;  // a byte that nobody looks at
  verbs::Mr scratch_region;
  std::unique_ptr<transport::VerbsLane> asks;
  std::unique_ptr<transport::VerbsLane> answers;
  std::vector<MoverJob> jobs;
  std::vector<MoverJob> spare_jobs;  // for cut(), which has no memory to wait for
  std::uint32_t head = 0;
  std::uint32_t outstanding = 0;
  TransferState* first_waiting = nullptr;
  TransferState* last_waiting = nullptr;
  bool broken = false;

  // What look_after() goes by.
  std::optional<Clock::time_point> trouble_since;  // nothing has succeeded since
  Clock::time_point mend_at{};
  std::uint32_t seen_over = 0;  // head - outstanding, since when, and how often
  Clock::time_point seen_at{};
  unsigned looks = 0;
  ToldCause told;  // of trouble, in the log
  // Of queue pairs that were destroyed while something of them was under way: nobody promises that
  // a completion queue forgets it.
  std::vector<std::vector<MoverJob>> left_jobs;
};

}  // namespace hbmwire::detail

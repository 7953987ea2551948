// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "hbmwire/fd.hpp"
#include "hbmwire/worker.hpp"

#include "base/forks.hpp"
#include "endpoint/transfer_state.hpp"
#include "transport/verbs/lane.hpp"
#include "verbs/handles.hpp"

namespace hbmwire::detail {

struct ListenerState;

/// One NIC of a worker. Destroyed in reverse.
struct WorkerNic {
  Nic nic;
  verbs::CompletionChannel channel;
  Region results;  // 8 bytes for each transfer, and at the end kSpareBytes that nobody looks at
  std::vector<std::unique_ptr<transport::CompletionQueue>> completions;
};

inline constexpr std::uint64_t kSpareBytes = 64;

/// What a worker and its endpoints share. One thread at a time, or under `mutex`.
///
/// It goes when its Worker, its Endpoints and the handles of its transfers have gone: the last of
/// the first two calls orphan(), and from then on the last handle deletes it.
struct WorkerState {
  using Clock = std::chrono::steady_clock;

  static Result<std::shared_ptr<WorkerState>> create(const Context& context,
                                                     const WorkerOptions& options);
  WorkerState(Context context_of, const WorkerOptions& options_of);
  WorkerState(const WorkerState&) = delete;
  WorkerState& operator=(const WorkerState&) = delete;
  ~WorkerState();

  // --- transfers (worker_datapath.cpp, inline here)

  /// Nothing when all are in use.
  [[nodiscard]] TransferState* take() noexcept {
    TransferState* const transfer = free;
    if (transfer != nullptr) [[likely]]
      free = transfer->next;
    return transfer;
  }

  void put_back(TransferState& transfer) noexcept {
    transfer.status = TransferState::Status::free;
    transfer.next = free;
    free = &transfer;
  }

  [[nodiscard]] std::size_t index_of(const TransferState& transfer) const noexcept {
    return static_cast<std::size_t>(&transfer - transfers.data());
  }

  /// It is over, and succeeded.
  void succeed(TransferState& transfer) noexcept {
    if (transfer.fetches) [[unlikely]]
      transfer.value = result_of(transfer);
    transfer.status = TransferState::Status::succeeded;
    transfer.endpoint = nullptr;
    if (!transfer.held) put_back(transfer);
  }

  void fail(TransferState& transfer, const Error& error, bool settled) noexcept;

  [[nodiscard]] std::uint64_t result_of(const TransferState& transfer) const noexcept;

  [[nodiscard]] const Error& error_of(const TransferState& transfer) const noexcept {
    return errors[index_of(transfer)];
  }

  // --- progress

  std::size_t progress() noexcept;

  /// Looks after what goes by the clock: peers that may be gone, deadlines, handshakes.
  std::size_t tick() noexcept;

  Result<bool> arm();

  /// Sleeps until fd() is readable, `wait` ends or it is time to look after the peers. Errors:
  /// timed_out, cancelled.
  Result<void> sleep(const Wait& wait);

  /// Drives until `over()`. Errors: timed_out, cancelled.
  template <class Over>
  Result<void> drive(const Wait& wait, const Over& over);

  /// Ends an active transfer with `why`; drive_to_end() sees to it that it is over.
  void cancel(TransferState& transfer, const Error& why) noexcept;
  Result<void> drive_to_end(const TransferState& transfer);

  [[nodiscard]] std::chrono::milliseconds wake_after() const noexcept;

  /// A completion queue with room for `places`. Errors: Stage::open.
  Result<transport::CompletionQueue*> completions_for(WorkerNic& nic, int places);

  void adopt(std::shared_ptr<EndpointState> endpoint);

  /// Ends everything: nobody will ask for progress any more.
  void orphan() noexcept;

  /// Nobody holds anything of it any more.
  void end() noexcept { delete this; }

  Context context;
  WorkerOptions options;
  MadeHere made;
  std::vector<WorkerNic> nics;

  TransferState* free = nullptr;
  std::vector<TransferState> transfers;
  std::vector<Error> errors;  // of failed transfers, each at its index
  std::size_t held = 0;       // handles
  bool orphaned = false;

  std::vector<std::shared_ptr<EndpointState>> endpoints;
  std::vector<ListenerState*> listeners;
  Clock::time_point now = Clock::now();  // as of the last tick()
  unsigned calls = 0;
  Fd epoll;
  std::recursive_mutex mutex;
};

/// Holds the lock of a worker that has a thread of its own.
class WorkerLock {
 public:
  explicit WorkerLock(WorkerState& worker) noexcept
      : worker_(worker.options.progress_thread ? &worker : nullptr) {
    if (worker_ != nullptr) [[unlikely]]
      worker_->mutex.lock();
  }

  WorkerLock(const WorkerLock&) = delete;
  WorkerLock& operator=(const WorkerLock&) = delete;

  ~WorkerLock() {
    if (worker_ != nullptr) [[unlikely]]
      worker_->mutex.unlock();
  }

 private:
  WorkerState* worker_;
};

// How long a wait polls before it sleeps: some round trips of a small message, so that short waits
// cost no wake-up.
inline constexpr std::chrono::microseconds kSpin{50};

template <class Over>
Result<void> WorkerState::drive(const Wait& wait, const Over& over) {
  // The clock is read once in so many polls; polls cost some nanoseconds.
  constexpr unsigned kPolls = 64;
  auto spin_until = Clock::now() + kSpin;
  for (unsigned i = 1; !over(); ++i) {
    if (progress() != 0) {
      if (over()) break;
    }
    if (i % kPolls != 0) continue;
    if (wait.deadline.passed() || Clock::now() >= spin_until) {
      HBMWIRE_TRY_ASSIGN(const bool may_sleep, arm());
      if (!may_sleep || over()) continue;
      HBMWIRE_TRY(sleep(wait));
      spin_until = Clock::now() + kSpin;
    }
  }
  return {};
}

}  // namespace hbmwire::detail

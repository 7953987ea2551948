// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include "hbmwire/error.hpp"
#include "hbmwire/transfer.hpp"

#include "endpoint/by_clock.hpp"

namespace hbmwire::detail {

struct TransferState;
struct WorkerState;

/// Something that is under way and no operation: a connection that is being made, a question for
/// the peer's memory, a goodbye. It goes on by its worker's clock alone, also for a call
/// that waits for it: the worker has then handled what came before a deadline is judged. The
/// program has its end as a transfer's, where it did not wait for it in a call.
class Task : public ByClock {
 public:
  /// Given up, where it is not over.
  ~Task() override;

  /// From here on the worker looks after it, until it is over.
  void go_by_clock() noexcept;

  /// The same, and the transfer ends with it. Errors: Errc::exhausted.
  Result<Transfer> hand_over();

  [[nodiscard]] bool over() const noexcept { return over_; }

  [[nodiscard]] const char* name() const noexcept { return name_; }

  /// Why one that is over has failed; none: it has not.
  [[nodiscard]] const std::optional<Error>& error() const noexcept { return error_; }

  /// Ends it because of `why`, at once or as soon as that can be.
  virtual void give_up(const Error& why) noexcept = 0;

 protected:
  /// `name`: of what it does, a static text.
  Task(WorkerState& worker, Clock::time_point due, const char* name) noexcept
      : ByClock(due), worker_(worker), name_(name) {}

  [[nodiscard]] WorkerState& worker() const noexcept { return worker_; }

  void succeed() noexcept;
  void fail(const Error& why) noexcept;

 private:
  void end() noexcept;
  void tell() noexcept;

  WorkerState& worker_;
  const char* name_;
  TransferState* transfer_ = nullptr;  // null: none was asked for, or it is over
  bool over_ = false;
  std::optional<Error> error_;
};

}  // namespace hbmwire::detail

// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include "hbmwire/error.hpp"
#include "hbmwire/transfer.hpp"

#include "endpoint/by_clock.hpp"

namespace hbmwire::detail {

struct TransferState;
struct WorkerState;

/// Work under way that is no operation: connecting, asking for the peer's memory, saying goodbye.
/// It proceeds only by its worker's clock, even in a call that waits for it: the worker then
/// handles earlier events before it judges a deadline. If the program did not wait in a call, it
/// gets the end of the task as that of a transfer.
class Task : public ByClock {
 public:
  /// Gives the task up if it is not over.
  ~Task() override;

  /// Lets the worker drive the task until it is over.
  void go_by_clock() noexcept;

  /// go_by_clock(), and returns a transfer that ends with the task. Errors: Errc::exhausted.
  Result<Transfer> hand_over();

  [[nodiscard]] bool over() const noexcept { return over_; }

  [[nodiscard]] const char* name() const noexcept { return name_; }

  /// Why a task that is over has failed; nothing if it has not.
  [[nodiscard]] const std::optional<Error>& error() const noexcept { return error_; }

  /// Ends the task because of `why`, at once or as soon as possible.
  virtual void give_up(const Error& why) noexcept = 0;

 protected:
  /// `name`: names the work; a static text.
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

// SPDX-License-Identifier: MIT
#pragma once

#include <pybind11/pybind11.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "hbmwire/deadline.hpp"
#include "hbmwire/fd.hpp"
#include "hbmwire/group.hpp"

#include "worker.hpp"

namespace hbmwire::python {

class GroupCall;

/// The library's group, which one call at a time uses.
struct GroupHold {
  std::timed_mutex mutex;
  std::optional<Group> group = {};  // under the mutex; none: closed
  std::set<GroupCall*> calls = {};  // with the GIL
};

/// A call that waits for other ranks, under way: hbmwire._core._GroupCall. It can't be cut into
/// steps, as waits for transfers are, since a call that is given up may not be made again. So it
/// runs in a thread of its own: meanwhile Python handles signals, and event loops go on.
class GroupCall : public Part {
 public:
  /// Makes the result, with the GIL.
  using Finish = std::function<py::object()>;

  /// Runs without the GIL. Its captures are destroyed with the GIL.
  using Body = std::function<Result<Finish>(const Wait&)>;

  /// Begins. `hold`: of the group that is called; null for a call that makes a group. Raises
  /// Exhausted, SystemFailure.
  GroupCall(SharedWorker worker, std::shared_ptr<GroupHold> hold, const Deadline& deadline,
            Body body);

  /// Cancels it, and waits for its end.
  ~GroupCall() override;

  GroupCall(const GroupCall&) = delete;
  GroupCall& operator=(const GroupCall&) = delete;

  /// Its worker is being closed: ends it without a result.
  void end() noexcept override;

  /// Lets it end soon, with Errc::cancelled.
  void cancel() noexcept;

  /// A descriptor that is readable when it is over.
  [[nodiscard]] int fd() const noexcept { return state_->over.get(); }

  /// The result, once it is over; waits for that. Raises its error.
  [[nodiscard]] py::object take();

  /// take() for a thread that waits: Python handles signals meanwhile. If one raises an exception,
  /// the caller drops this object, which cancels the call.
  [[nodiscard]] py::object wait();

 private:
  /// end() may still use it after another thread has destroyed the call.
  struct State {
    std::optional<WorkerObject::Use> used = {};
    Body body;
    Fd cancel;
    Fd over;
    std::optional<Result<Finish>> result = {};  // only the thread uses it until `over`
    bool is_taken = false;
    bool is_closed = false;

    void run(const Deadline& deadline) noexcept;
    void wait_over() const noexcept;
  };

  std::shared_ptr<GroupHold> hold_;
  std::shared_ptr<State> state_;
  std::thread thread_;
  pid_t process_;
};

using NewGroupCall = std::unique_ptr<GroupCall>;

}  // namespace hbmwire::python

// SPDX-License-Identifier: MIT
#pragma once

#include <pybind11/pybind11.h>
#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "hbmwire/hbmwire.hpp"
#include "hbmwire/incoming_message.hpp"
#include "hbmwire/worker.hpp"

#include "errors.hpp"
#include "memory.hpp"

/// A worker as Python has it, and how calls wait for it.
namespace hbmwire::python {

/// Keeps anything that a transfer uses: a region and its owner, the arrays of a list.
using Keep = std::shared_ptr<const void>;

/// How many things a transfer can keep.
inline constexpr std::size_t kKeeps = 4;

class WorkerObject;
using SharedWorker = std::shared_ptr<WorkerObject>;

/// A part of a worker that must end before the worker: an endpoint, a listener, and so on.
class Part {
 public:
  explicit Part(SharedWorker worker);
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  virtual ~Part();

  /// Drops the library's object; needs the GIL. Every later use of the part raises.
  virtual void end() noexcept = 0;

  [[nodiscard]] const SharedWorker& worker() const noexcept { return worker_; }

 private:
  SharedWorker worker_;
};

/// hbmwire.Worker. All of it is used with the GIL, except the library's Worker, which has a lock of
/// its own (WorkerThreads::any). A call that may wait releases the GIL, and touches nothing else of
/// this object meanwhile.
class WorkerObject : public std::enable_shared_from_this<WorkerObject> {
 public:
  /// Raises the errors of Worker::create().
  static SharedWorker create(const Context& context, const WorkerOptions& options);

  WorkerObject(Worker worker, bool has_thread);
  WorkerObject(const WorkerObject&) = delete;
  WorkerObject& operator=(const WorkerObject&) = delete;
  ~WorkerObject();

  /// Raises InvalidArgument if it is closed.
  [[nodiscard]] Worker& open();

  [[nodiscard]] bool is_open() const noexcept { return worker_.has_value() && !closing_; }

  /// WorkerOptions::progress_thread.
  [[nodiscard]] bool has_thread() const noexcept { return has_thread_; }

  /// Ends its parts and itself, and with them every operation under way. Takes a second at most. A
  /// second call does nothing.
  void close();

  /// Keeps the library's worker while a call uses it without the GIL: close() waits for that before
  /// it ends the transfers.
  class Use {
   public:
    /// Raises InvalidArgument if the worker is closed.
    explicit Use(SharedWorker worker) : owner_(std::move(worker)), worker_(owner_->open()) {
      ++owner_->users_;
    }

    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    ~Use() { --owner_->users_; }

    [[nodiscard]] Worker& operator*() noexcept { return worker_; }

    [[nodiscard]] Worker* operator->() noexcept { return &worker_; }

   private:
    SharedWorker owner_;
    Worker worker_;
  };

  // --- transfers that no handle waits for

  /// Keeps `keeps` until the transfer is over, and then calls `on_end`, unless it is empty.
  /// `cookie`: 0 for the first call with this transfer, then the result of that call. Returns the
  /// transfer's cookie.
  std::uint64_t follow(Transfer& transfer, std::uint64_t cookie, std::array<Keep, kKeeps> keeps,
                       py::object on_end);

  /// Forgets one function that was given to follow().
  void forget(std::uint64_t cookie, py::handle on_end);

  /// Releases everything that finished transfers used, and calls their functions.
  void settle();

  /// settle(), if any transfer is followed.
  void settle_some() {
    if (!followed_.empty()) [[unlikely]]
      settle();
  }

  /// Tells an event loop that something has begun or ended, in any thread.
  void begun() {
    if (wakes_loop_) [[unlikely]]
      wake_loop();
  }

  /// Sets the function for the first begun() after each look_again().
  void on_begin(py::object call) {
    on_begin_ = std::move(call);
    look_again();
  }

  /// The event loop is awake: the next begun() has to wake it again.
  void look_again() noexcept { wakes_loop_ = static_cast<bool>(on_begin_); }

  /// How many transfers are followed.
  [[nodiscard]] std::size_t followed() const noexcept { return followed_.size(); }

  // --- messages that endpoints hand out

  /// The next message; nothing if there is none. Drives the worker once.
  std::optional<IncomingMessage> take_message();

  /// Moves all messages from the library to this object, so that an event loop may sleep. Each
  /// keeps its place at its endpoint, so that peers send no more than before.
  void collect_messages();

  [[nodiscard]] bool has_messages() const noexcept { return !messages_.empty(); }

  /// Registered memory for a message of `length` bytes. It comes back when the message is over.
  [[nodiscard]] SharedRegion message_memory(std::uint64_t length);

  /// Sets a function that is called once when the worker is closed, before its descriptor is.
  void on_close(py::object call) { on_close_.push_back(std::move(call)); }

  /// Ends all workers of this process, before the interpreter ends.
  static void close_all();

 private:
  friend class Part;

  struct Followed {
    std::array<Keep, kKeeps> keeps;
    std::vector<py::object> on_end;
  };

  void wait_for_followed(const Deadline& deadline);
  void wake_loop();

  std::unordered_map<std::uint64_t, Followed> followed_;  // destroyed after the library's worker
  std::optional<Worker> worker_;
  bool has_thread_;
  bool closing_ = false;  // a thread is in close(), which sometimes releases the GIL
  std::set<Part*> parts_;
  std::uint64_t cookies_ = 0;
  std::deque<IncomingMessage> messages_;
  std::map<std::uint64_t, std::vector<Region>> message_memory_;  // unused, by length
  std::vector<py::object> on_close_;
  py::object on_begin_;
  bool wakes_loop_ = false;
  unsigned users_ = 0;
  pid_t process_;
};

/// The longest time of a call without the GIL, so that Python can handle signals: Ctrl-C raises
/// KeyboardInterrupt.
inline constexpr auto kStep = std::chrono::milliseconds(100);

/// One step from now on, but `deadline` at the latest.
[[nodiscard]] inline Deadline next_step(const Deadline& deadline) noexcept {
  return Deadline(std::min(deadline.when(), Deadline::after(kStep).when()));
}

/// Calls `step(Wait)` without the GIL, for one step at most. Then lets Python handle signals.
template <class Step>
auto in_step(const Deadline& deadline, const Step& step) {
  auto result = [&, until = next_step(deadline)] {
    const WithoutGil released;
    return step(Wait{until});
  }();
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  return result;
}

/// Calls `step(Wait)` until it gives true or an error, or `deadline` passes, which gives false.
/// After each step `check()` raises if another thread has closed the thing that is waited for.
template <class Step, class Check>
bool wait_in_steps(const Deadline& deadline, const Step& step, const Check& check) {
  for (;;) {
    const Result<bool> over = in_step(deadline, step);
    if (!over) raise(over.error());
    if (*over) return true;
    check();
    if (deadline.passed()) return false;
  }
}

/// Lets a worker handle something, or sleeps for one step. Returns whether there was something to
/// handle.
bool handle_something(const SharedWorker& worker, const Deadline& deadline);

/// Drives a worker until `over()` gives true; false if `deadline` passed. `over()` is called with
/// the GIL, after the worker has handled everything and before it sleeps.
template <class Over>
bool drive_until(const SharedWorker& worker, const Deadline& deadline, const Over& over) {
  for (;;) {
    worker->settle();
    worker->collect_messages();  // the library does not sleep while it has messages
    if (over()) return true;
    if (deadline.passed()) return false;
    handle_something(worker, deadline);
  }
}

/// The error of a wait whose time is over; the operation goes on.
[[nodiscard]] Error out_of_time(std::string_view subject = {}) noexcept;

/// Calls a function of hbmwire/_aio.py.
template <class... Given>
py::object in_aio(const char* function, Given&&... given) {
  // Kept for good: an import takes 0.3 us even if the module is imported already.
  static const py::handle kModule = py::module_::import("hbmwire._aio").release();
  return kModule.attr(function)(std::forward<Given>(given)...);
}

/// An operation that can be polled, waited for and awaited: a transfer, a connection under way, and
/// so on.
class Waitable {
 public:
  /// The operation has begun already.
  explicit Waitable(SharedWorker worker) : worker_(std::move(worker)) { worker_->begun(); }

  Waitable(const Waitable&) = delete;
  Waitable& operator=(const Waitable&) = delete;
  virtual ~Waitable() = default;

  [[nodiscard]] virtual Transfer& transfer() = 0;

  /// Keeps transfer() while a thread waits for it, since another thread may close the worker.
  [[nodiscard]] virtual Keep keep() { return {}; }

  /// Gives up the things that the operation uses; the worker then keeps them until it is over.
  virtual std::array<Keep, kKeeps> give_keeps() { return {}; }

  /// Whether it is over; raises if it has failed.
  bool poll();

  /// Waits until it is over. Raises TimedOut or KeyboardInterrupt, after which it goes on.
  void wait(const Deadline& deadline);

  /// Calls `on_end` once it is over. False: it is over already, or its worker is closed, and
  /// `on_end` will not be called.
  bool notify(py::object on_end);

  /// `on_end` will not be called any more.
  void forget(py::handle on_end) { worker_->forget(cookie_, on_end); }

  [[nodiscard]] const SharedWorker& worker() const noexcept { return worker_; }

 protected:
  /// Destructors of derived classes must call it: if the operation is not over, the worker keeps
  /// everything that it uses.
  void let_go() noexcept;

 private:
  SharedWorker worker_;
  std::uint64_t cookie_ = 0;
};

}  // namespace hbmwire::python

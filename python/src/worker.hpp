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

/// At most so many things are kept for a transfer.
inline constexpr std::size_t kKeeps = 4;

class WorkerObject;
using SharedWorker = std::shared_ptr<WorkerObject>;

/// A part of a worker that has to end before it: endpoints, listeners, ...
class Part {
 public:
  explicit Part(SharedWorker worker);
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  virtual ~Part();

  /// Lets the library's object go; with the GIL. Every later use of the part raises.
  virtual void end() noexcept = 0;

  [[nodiscard]] const SharedWorker& worker() const noexcept { return worker_; }

 private:
  SharedWorker worker_;
};

/// hbmwire.Worker. All of it is used with the GIL, but for the library's Worker, which has a lock
/// of its own (WorkerThreads::any): a call that may wait for others lets the GIL go and takes
/// nothing of this meanwhile.
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

  /// Ends its parts and itself, and with that everything that is under way. Takes a second at most.
  /// A second call does nothing.
  void close();

  /// Keeps the library's worker while a call uses it without the GIL, and close() from ending the
  /// transfers before.
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

  /// Keeps `keeps` until the transfer is over, and then calls `on_end`, unless it is empty. Gives
  /// the cookie of the transfer, for a further call; 0: it is its first.
  std::uint64_t follow(Transfer& transfer, std::uint64_t cookie, std::array<Keep, kKeeps> keeps,
                       py::object on_end);

  /// Forgets one function of follow()'s.
  void forget(std::uint64_t cookie, py::handle on_end);

  /// Lets go what transfers used that are over, and calls their functions.
  void settle();

  /// The same, if there is anything.
  void settle_some() {
    if (!followed_.empty()) [[unlikely]]
      settle();
  }

  /// An event loop has to look at something that was begun or ended, by any thread.
  void begun() {
    if (wakes_loop_) [[unlikely]]
      wake_loop();
  }

  /// `call` is called with the first begun() after each look_again().
  void on_begin(py::object call) {
    on_begin_ = std::move(call);
    look_again();
  }

  void look_again() noexcept { wakes_loop_ = static_cast<bool>(on_begin_); }

  /// How many transfers are followed.
  [[nodiscard]] std::size_t followed() const noexcept { return followed_.size(); }

  // --- messages that endpoints hand out

  /// The next one; nothing: there is none. Drives the worker once.
  std::optional<IncomingMessage> take_message();

  /// Moves all that the library has to this, so that an event loop may sleep. Each keeps its place
  /// at its endpoint, so that peers send no more than before.
  void collect_messages();

  [[nodiscard]] bool has_messages() const noexcept { return !messages_.empty(); }

  /// Registered memory of at least `length` bytes for a message, which comes back when it is over.
  [[nodiscard]] SharedRegion message_memory(std::uint64_t length);

  /// Called once, when it is closed, before its descriptor is.
  void on_close(py::object call) { on_close_.push_back(std::move(call)); }

  /// Ends all workers of this process: before the interpreter ends.
  static void close_all();

 private:
  friend class Part;

  struct Followed {
    std::array<Keep, kKeeps> keeps;
    std::vector<py::object> on_end;
  };

  void wait_for_followed(const Deadline& deadline);
  void wake_loop();

  std::unordered_map<std::uint64_t, Followed> followed_;  // goes after the library's worker
  std::optional<Worker> worker_;
  bool has_thread_;
  bool closing_ = false;  // a thread is in close(), which lets the GIL go at times
  std::set<Part*> parts_;
  std::uint64_t cookies_ = 0;
  std::deque<IncomingMessage> messages_;
  std::map<std::uint64_t, std::vector<Region>> message_memory_;  // free, by length
  std::vector<py::object> on_close_;
  py::object on_begin_;
  bool wakes_loop_ = false;
  unsigned users_ = 0;
  pid_t process_;
};

/// A call without the GIL lasts no longer, so that Python handles signals: Ctrl-C raises
/// KeyboardInterrupt.
inline constexpr auto kStep = std::chrono::milliseconds(100);

/// So far from now on, and `deadline` at the latest.
[[nodiscard]] inline Deadline next_step(const Deadline& deadline) noexcept {
  return Deadline(std::min(deadline.when(), Deadline::after(kStep).when()));
}

/// Calls `step(Wait)` without the GIL, for a step at most. Then Python handles signals.
template <class Step>
auto in_step(const Deadline& deadline, const Step& step) {
  auto result = [&, until = next_step(deadline)] {
    const WithoutGil released;
    return step(Wait{until});
  }();
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  return result;
}

/// Calls `step(Wait)` in steps until it gives true, an error, or `deadline` passes: false. Between
/// them `check()` raises where another thread has closed what is waited for.
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

/// Lets a worker handle something, or sleeps for a step. Whether there was something.
bool handle_something(const SharedWorker& worker, const Deadline& deadline);

/// Drives a worker until `over()` gives true; false: `deadline` passed. It is asked with the GIL,
/// after all that the worker has handled and before it sleeps.
template <class Over>
bool drive_until(const SharedWorker& worker, const Deadline& deadline, const Over& over) {
  for (;;) {
    worker->settle();
    worker->collect_messages();  // the library would not sleep while it has any
    if (over()) return true;
    if (deadline.passed()) return false;
    handle_something(worker, deadline);
  }
}

/// The error of a wait whose time is over, and what it waited for goes on.
[[nodiscard]] Error out_of_time(std::string_view subject = {}) noexcept;

/// Calls a function of hbmwire/_aio.py.
template <class... Given>
py::object in_aio(const char* function, Given&&... given) {
  // For good: importing it takes 0.3 us even where it is imported already.
  static const py::handle kModule = py::module_::import("hbmwire._aio").release();
  return kModule.attr(function)(std::forward<Given>(given)...);
}

/// An operation that can be polled, waited for and awaited: a transfer, a connection that is being
/// made, ...
class Waitable {
 public:
  /// The operation was begun already.
  explicit Waitable(SharedWorker worker) : worker_(std::move(worker)) { worker_->begun(); }

  Waitable(const Waitable&) = delete;
  Waitable& operator=(const Waitable&) = delete;
  virtual ~Waitable() = default;

  [[nodiscard]] virtual Transfer& transfer() = 0;

  /// Keeps transfer() while a thread waits for it, and another one may close the worker.
  [[nodiscard]] virtual Keep keep() { return {}; }

  /// Gives away the things that it uses, which the worker then keeps until it is over.
  virtual std::array<Keep, kKeeps> give_keeps() { return {}; }

  /// Whether it is over; raises why it failed.
  bool poll();

  /// Until it is over. Raises TimedOut, and it goes on; KeyboardInterrupt, likewise.
  void wait(const Deadline& deadline);

  /// Calls `on_end` once it is over. False: it is over already, or its worker is closed, and
  /// nothing is called.
  bool notify(py::object on_end);

  /// `on_end` is not called any more.
  void forget(py::handle on_end) { worker_->forget(cookie_, on_end); }

  [[nodiscard]] const SharedWorker& worker() const noexcept { return worker_; }

 protected:
  /// To be called by the destructors of derived classes: has the worker keep what it uses if it is
  /// not over.
  void let_go() noexcept;

 private:
  SharedWorker worker_;
  std::uint64_t cookie_ = 0;
};

}  // namespace hbmwire::python

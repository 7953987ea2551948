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

  explicit WorkerObject(Worker worker);
  WorkerObject(const WorkerObject&) = delete;
  WorkerObject& operator=(const WorkerObject&) = delete;
  ~WorkerObject();

  /// Raises InvalidArgument if it is closed.
  [[nodiscard]] Worker& open();

  [[nodiscard]] bool is_open() const noexcept { return worker_.has_value() && !closing_; }

  /// Ends its parts, and waits until nothing is under way: a few seconds at most, after which what
  /// transfers use is kept for good. A second call does nothing.
  void close();

  // --- transfers that no handle waits for

  /// Keeps `keeps` until the transfer is over, and then calls `on_end`, unless it is empty. Gives
  /// the cookie of the transfer, for a further call; 0: it is its first.
  std::uint64_t follow(Transfer& transfer, std::uint64_t cookie, std::array<Keep, kKeeps> keeps,
                       py::object on_end);

  /// Whether follow() still knows the transfer.
  [[nodiscard]] bool follows(std::uint64_t cookie) const { return followed_.contains(cookie); }

  /// Lets go what transfers used that are over, and calls their functions.
  void settle();

  /// The same, if there is anything. At the start of each operation: programs that never wait free
  /// the memory that their transfers used, too.
  void settle_some() {
    if (!followed_.empty()) [[unlikely]]
      settle();
  }

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

  void wait_for_followed();

  std::unordered_map<std::uint64_t, Followed> followed_;  // goes after the library's worker
  std::optional<Worker> worker_;
  bool closing_ = false;  // a thread is in close(), which lets the GIL go at times
  std::set<Part*> parts_;
  std::uint64_t cookies_ = 0;
  std::deque<IncomingMessage> messages_;
  std::map<std::uint64_t, std::vector<Region>> message_memory_;  // free, by length
  std::vector<py::object> on_close_;
  pid_t process_;
};

/// Calls `step(Wait)` without the GIL until it gives true, an error, or `deadline` passes: false.
/// Between steps Python handles signals, so that Ctrl-C raises KeyboardInterrupt, and `check()`
/// raises where another thread has closed what is waited for.
template <class Step, class Check>
bool wait_in_steps(const Deadline& deadline, const Step& step, const Check& check) {
  constexpr auto kStep = std::chrono::milliseconds(100);
  for (;;) {
    const Deadline until(std::min(deadline.when(), Deadline::after(kStep).when()));
    auto over = [&]() -> Result<bool> {
      const WithoutGil released;
      return step(Wait{until});
    }();
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (!over) raise(over.error());
    if (*over) return true;
    check();
    if (deadline.passed()) return false;
  }
}

/// The error of a wait whose time is over, and what it waited for goes on.
[[nodiscard]] Error out_of_time(std::string_view subject = {}) noexcept;

/// Calls a function of hbmwire/_aio.py.
template <class... Given>
py::object in_aio(const char* function, Given&&... given) {
  return py::module_::import("hbmwire._aio").attr(function)(std::forward<Given>(given)...);
}

/// What can be polled, waited for and awaited: a transfer, a connection that is being made, ...
class Waitable {
 public:
  explicit Waitable(SharedWorker worker) : worker_(std::move(worker)) {}

  Waitable(const Waitable&) = delete;
  Waitable& operator=(const Waitable&) = delete;
  virtual ~Waitable() = default;

  [[nodiscard]] virtual Transfer& transfer() = 0;

  /// Keeps transfer() while a thread waits for it, and another one may close the worker.
  [[nodiscard]] virtual Keep keep() { return {}; }

  /// What it uses, given away: kept until it is over.
  virtual std::array<Keep, kKeeps> give_keeps() { return {}; }

  /// Whether it is over; raises why it failed.
  bool poll();

  /// Until it is over. Raises TimedOut, and it goes on; KeyboardInterrupt, likewise.
  void wait(const Deadline& deadline);

  /// Calls `on_end` once it is over. False: it is over already, and nothing is called.
  bool notify(py::object on_end);

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

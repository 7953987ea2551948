// SPDX-License-Identifier: MIT
#include "worker.hpp"

#include <pybind11/stl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "hbmwire/counters.hpp"

#include "arguments.hpp"
#include "context.hpp"
#include "message.hpp"
#include "parts.hpp"
#include "transfer.hpp"

namespace hbmwire::python {

using namespace std::chrono_literals;

namespace {

/// All open workers of this process.
std::set<WorkerObject*>& open_workers() {
  static auto* const kWorkers = new std::set<WorkerObject*>;  // outlives every static object
  return *kWorkers;
}

/// Calls functions of the program. Their exceptions cannot be passed on, so Python reports them.
void call_all(const std::vector<py::object>& functions) {
  for (const py::object& function : functions) {
    try {
      function();
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("hbmwire");
    }
  }
}

}  // namespace

Error out_of_time(std::string_view subject) noexcept {
  return make_error(Errc::timed_out, Stage::complete, "not over within the time allowed", subject,
                    Hint::peer_slow);
}

Part::Part(SharedWorker worker) : worker_(std::move(worker)) {
  // Raises if another thread has closed it while the part was made.
  static_cast<void>(worker_->open());
  worker_->parts_.insert(this);
  worker_->begun();
}

Part::~Part() { worker_->parts_.erase(this); }

SharedWorker WorkerObject::create(const Context& context, const WorkerOptions& options) {
  auto worker =
      value_without_gil([&] { return Worker::create(context, options, WorkerThreads::any); });
  return std::make_shared<WorkerObject>(std::move(worker), options.progress_thread);
}

WorkerObject::WorkerObject(Worker worker, bool has_thread)
    : worker_(std::move(worker)), has_thread_(has_thread), process_(::getpid()) {
  open_workers().insert(this);
}

WorkerObject::~WorkerObject() {
  try {
    close();
  } catch (const std::exception&) {
    // The order of the members is safe: the library's worker goes before the memory.
  }
}

Worker& WorkerObject::open() {
  if (!is_open()) refuse("the worker is closed, as its context may be");
  return *worker_;
}

void WorkerObject::close() {
  if (!is_open()) return;
  closing_ = true;
  open_workers().erase(this);
  call_all(std::exchange(on_close_, {}));
  // A part may be removed by the end of another one.
  while (!parts_.empty()) {
    Part* const part = *parts_.begin();
    parts_.erase(parts_.begin());
    part->end();
  }
  // With healthy peers, operations under way end within moments.
  wait_for_followed(Deadline::after(500ms));
  messages_.clear();
  message_memory_.clear();
  on_begin_ = py::object();
  wakes_loop_ = false;
  // Threads that wait notice within one step that the worker is closed.
  const Deadline end = Deadline::after(10 * kStep);
  while (users_ != 0 && !end.passed()) {
    const WithoutGil released;
    std::this_thread::sleep_for(1ms);
  }
  const bool is_last = users_ == 0;
  std::optional<Worker> last = std::exchange(worker_, std::nullopt);
  {
    const WithoutGil released;  // a thread of the library may end with the worker
    last.reset();
  }
  drop_owners();
  // When the worker has gone, all its transfers are over. A child by fork(2) has none.
  auto followed = std::exchange(followed_, {});
  for (const auto& [cookie, one] : followed) call_all(one.on_end);
  if (is_last || process_ != ::getpid()) return;
  // A thread is stuck in the library, and a NIC may still use this memory: it is never released.
  static auto* const kForGood = new std::vector<decltype(followed_)>;
  kForGood->push_back(std::move(followed));
}

void WorkerObject::close_all() {
  while (!open_workers().empty()) {
    // Another thread may drop its last handle meanwhile.
    const SharedWorker worker = (*open_workers().begin())->weak_from_this().lock();
    if (!worker) return;
    worker->close();
  }
}

void WorkerObject::wait_for_followed(const Deadline& deadline) {
  if (process_ != ::getpid()) return;
  for (;;) {
    settle();
    if (followed_.empty() || deadline.passed()) return;
    Worker shared = *worker_;
    const WithoutGil released;
    static_cast<void>(shared.wait(10ms));
  }
}

void WorkerObject::wake_loop() {
  wakes_loop_ = false;
  call_all({on_begin_});
}

std::uint64_t WorkerObject::follow(Transfer& transfer, std::uint64_t cookie,
                                   std::array<Keep, kKeeps> keeps, py::object on_end) {
  auto found = followed_.find(cookie);
  const bool is_new = found == followed_.end();
  if (is_new) found = followed_.emplace(++cookies_, Followed{}).first;
  Followed& followed = found->second;
  if (keeps.front()) followed.keeps = std::move(keeps);
  if (on_end) followed.on_end.push_back(std::move(on_end));
  const std::uint64_t number = found->first;
  if (is_new) transfer.notify(number);
  return number;
}

void WorkerObject::forget(std::uint64_t cookie, py::handle on_end) {
  const auto found = followed_.find(cookie);
  if (found == followed_.end()) return;
  auto& functions = found->second.on_end;
  const auto one =
      std::ranges::find_if(functions, [&](const py::object& each) { return each.is(on_end); });
  if (one != functions.end()) functions.erase(one);
}

void WorkerObject::settle() {
  drop_owners();
  if (!worker_) return;
  std::vector<Followed> over;
  while (const auto done = worker_->next_done()) {
    const auto found = followed_.find(done->cookie);
    if (found == followed_.end()) continue;
    over.push_back(std::move(found->second));
    followed_.erase(found);
  }
  for (const Followed& one : over) call_all(one.on_end);
}

std::optional<IncomingMessage> WorkerObject::take_message() {
  if (messages_.empty()) return open().next_message();
  IncomingMessage message = std::move(messages_.front());
  messages_.pop_front();
  return message;
}

void WorkerObject::collect_messages() {
  while (auto message = open().next_message()) messages_.push_back(std::move(*message));
}

SharedRegion WorkerObject::message_memory(std::uint64_t length) {
  constexpr std::uint64_t kShortest = 4096;  // a page
  constexpr std::uint64_t kLongestKept = 1 << 20;
  constexpr std::size_t kMostKept = 64;  // of each length
  // Lengths are rounded up to powers of two, so that memory can be used again. Memory that will not
  // be kept has the exact length.
  const std::uint64_t size =
      length > kLongestKept ? length : std::bit_ceil(std::max(length, kShortest));
  const Context context = open().context();
  const auto hold = [&] {
    const auto spare = message_memory_.find(size);
    if (spare == message_memory_.end() || spare->second.empty()) {
      return value_without_gil(
          [&] { return context.allocate_region(MemoryType::host, size, Access::none); });
    }
    Region region = std::move(spare->second.back());
    spare->second.pop_back();
    return region;
  }();
  const auto give_back = [worker = weak_from_this(), size](const RegionHold* used) {
    if (const SharedWorker home = worker.lock(); home && home->is_open() && size <= kLongestKept) {
      std::vector<Region>& kept = home->message_memory_[size];
      if (kept.size() < kMostKept) kept.push_back(used->region);
    }
    delete used;
  };
  return {new RegionHold(context, py::none(), hold), give_back};
}

bool handle_something(const SharedWorker& worker, const Deadline& deadline) {
  WorkerObject::Use shared(worker);
  const auto waited = in_step(deadline, [&](const Wait& step) { return shared->wait(step); });
  if (!waited && waited.error().code != Errc::timed_out) raise(waited.error());
  return waited.has_value();
}

// --- Waitable

bool Waitable::poll() { return value(transfer().poll()); }

void Waitable::wait(const Deadline& deadline) {
  if (poll()) return;
  const Keep kept = keep();
  Transfer& waited = transfer();
  const bool over = wait_in_steps(
      deadline, [&](const Wait& step) { return waited.poll_until(step); },
      [&] { static_cast<void>(transfer()); });
  worker_->settle_some();
  if (!over) raise(out_of_time(transfer().explain().peer));
}

bool Waitable::notify(py::object on_end) {
  if (transfer().done() || !worker_->is_open()) return false;
  cookie_ = worker_->follow(transfer(), cookie_, {}, std::move(on_end));
  return true;
}

void Waitable::let_go() noexcept {
  if (!transfer() || transfer().done()) return;
  try {
    std::array<Keep, kKeeps> keeps = give_keeps();
    if (keeps.front()) cookie_ = worker_->follow(transfer(), cookie_, std::move(keeps), {});
  } catch (const std::exception&) {
    static_cast<void>(transfer().cancel());  // without memory to follow it, it must end now
  }
}

// --- classes of the Python module

namespace {

/// The work of an event loop when the worker's descriptor is readable, or its timer has fired.
class Pump {
 public:
  explicit Pump(WorkerObject& worker) : worker_(worker.weak_from_this()) {}

  /// Does everything there is to do. Returns the seconds after which it must be called again: 0 if
  /// there is more to do, a negative number if the worker is closed. `watched`: the loop also waits
  /// for events other than transfers and messages. A worker with a thread of the library makes its
  /// descriptor readable only for those two.
  double turn(bool watched) {
    const SharedWorker worker = worker_.lock();
    if (!worker || !worker->is_open()) return -1;
    WorkerObject::Use shared(worker);
    worker->look_again();
    // Other work of the loop wants its turn, too.
    constexpr int kRounds = 16;
    for (int i = 0; i < kRounds; ++i) {
      {
        const WithoutGil released;
        while (shared->progress() != 0) {
        }
      }
      worker->settle();
      if (!worker->is_open()) return -1;
      worker->collect_messages();
      if (!value(shared->arm())) continue;
      // The descriptor does not show the watched events then: looks for them often enough.
      const auto after = watched && worker->has_thread()
                             ? std::min(shared->wake_after(), std::chrono::milliseconds(20))
                             : shared->wake_after();
      return std::chrono::duration<double>(after).count();
    }
    return 0;
  }

 private:
  std::weak_ptr<WorkerObject> worker_;
};

void wait_for_anything(const SharedWorker& worker, const Deadline& deadline) {
  worker->settle();
  for (;;) {
    worker->collect_messages();
    if (worker->has_messages() || handle_something(worker, deadline)) break;
    if (deadline.passed())
      raise(make_error(Errc::timed_out, Stage::complete, "nothing happened in time"));
  }
  worker->settle();
}

/// Transfers of a program's list. Another thread may change that list while one waits for them.
struct Transfers {
  py::tuple kept;
  std::vector<TransferObject*> all;
};

Transfers transfers_of(const py::iterable& given) {
  Transfers transfers{py::tuple(given), {}};
  for (const py::handle one : transfers.kept) {
    if (!py::isinstance<TransferObject>(one)) {
      throw py::type_error("transfers are needed here, not " +
                           std::string(py::str(py::type::handle_of(one).attr("__name__"))));
    }
    transfers.all.push_back(one.cast<TransferObject*>());
  }
  return transfers;
}

/// The index of the first transfer that is over. Checks them all after each event of the worker.
std::size_t wait_any(const SharedWorker& worker, const Transfers& given, const Deadline& deadline) {
  const std::vector<TransferObject*>& transfers = given.all;
  if (transfers.empty()) refuse("there is no transfer to wait for");
  for (TransferObject* const one : transfers) {
    if (one->worker() != worker) refuse("a transfer is another worker's");
  }
  std::size_t first = 0;
  const bool over = drive_until(worker, deadline, [&] {
    const auto found =
        std::ranges::find_if(transfers, [](TransferObject* one) { return one->transfer().done(); });
    first = static_cast<std::size_t>(found - transfers.begin());
    return found != transfers.end();
  });
  if (!over) raise(out_of_time());
  return first;
}

void wait_all(const SharedWorker& worker, const Transfers& given, const Deadline& deadline) {
  const std::vector<TransferObject*>& transfers = given.all;
  for (TransferObject* const one : transfers) {
    if (one->worker() != worker) refuse("a transfer is another worker's");
  }
  // The first failure is raised when all are over.
  py::object failure;
  for (TransferObject* const one : transfers) {
    if (!one->transfer().done()) {
      const bool over = wait_in_steps(
          deadline,
          [&](const Wait& step) -> Result<bool> {
            const auto polled = one->transfer().poll_until(step);
            return polled.value_or(true);  // after an error it is over, too
          },
          [] {});
      if (!over) raise(out_of_time());
    }
    const auto ended = one->transfer().poll();
    if (!ended && !failure) failure = exception_of(ended.error());
  }
  worker->settle_some();
  if (failure) raise(failure);
}

MessageObject next_message(const SharedWorker& worker, const Deadline& deadline) {
  if (!drive_until(worker, deadline, [&] { return worker->has_messages(); }))
    raise(make_error(Errc::timed_out, Stage::complete, "no message came in time"));
  return {worker, std::move(*worker->take_message())};
}

}  // namespace

namespace {

using WorkerClass = py::class_<WorkerObject, SharedWorker>;

void bind_waits(WorkerClass& worker) {
  worker
      .def(
          "wait",
          [](const SharedWorker& self, const py::object& timeout) {
            wait_for_anything(self, deadline_of(timeout));
          },
          py::arg("timeout") = py::none(),
          "Sleeps until something happens, and handles it. Raises TimedOut after `timeout` "
          "seconds; None: never.")
      .def(
          "wait_any",
          [](const SharedWorker& self, const py::iterable& transfers, const py::object& timeout) {
            return wait_any(self, transfers_of(transfers), deadline_of(timeout));
          },
          py::arg("transfers"), py::arg("timeout") = py::none(),
          "Waits until one of the transfers is over, and gives the index of the first one that "
          "is, even if it failed. Raises TimedOut, and all of them go on.")
      .def(
          "wait_all",
          [](const SharedWorker& self, const py::iterable& transfers, const py::object& timeout) {
            wait_all(self, transfers_of(transfers), deadline_of(timeout));
          },
          py::arg("transfers"), py::arg("timeout") = py::none(),
          "Waits until all of the transfers are over. Raises why the first one of those that "
          "failed did; TimedOut, and those that are not over go on.")
      .def(
          "next_message",
          [](const SharedWorker& self, const py::object& timeout) {
            return next_message(self, deadline_of(timeout));
          },
          py::arg("timeout") = py::none(),
          "The next Message of any endpoint that hands its messages out "
          "(messages='handed_out'). Raises TimedOut after `timeout` seconds; None: never.")
      .def(
          "try_message",
          [](const SharedWorker& self) -> std::optional<MessageObject> {
            self->settle_some();
            auto message = self->take_message();
            if (!message) return std::nullopt;
            return MessageObject{self, std::move(*message)};
          },
          "The next Message if there is one, else None. Never waits.")
      .def(
          "anext_message",
          [](const py::object& self, const py::object& timeout) {
            return in_aio("next_message", self, timeout);
          },
          py::arg("timeout") = py::none(), "next_message() for asyncio.")
      .def(
          "flush",
          [](const SharedWorker& self, const py::object& memory) {
            const SliceObject slice = local_of(memory);
            self->settle_some();
            return std::make_unique<TransferObject>(self, value(self->open().flush(slice.slice())),
                                                    Keep(slice.hold));
          },
          py::arg("memory"),
          "Makes bytes that NICs have written into this memory before visible to the device's own "
          "engines. A receive and a get do so by themselves.");
}

void bind_event_loop(WorkerClass& worker) {
  worker
      .def("_has_message",
           [](const SharedWorker& self) {
             self->collect_messages();
             return self->has_messages();
           })
      .def(
          "fileno", [](WorkerObject& self) { return self.open().fd(); },
          "A descriptor that becomes readable when progress() has something to do, after arm().")
      .def(
          "arm",
          [](WorkerObject& self) { return value(self.open().arm()) && !self.has_messages(); },
          "To be called before sleeping on fileno(). False: look again before sleeping.")
      .def_property_readonly(
          "wake_after",
          [](WorkerObject& self) {
            if (self.has_messages()) return 0.0;
            return std::chrono::duration<double>(self.open().wake_after()).count();
          },
          "How many seconds a program may sleep before it must call progress().")
      .def_property_readonly("in_flight", &WorkerObject::followed,
                             "How many transfers without a handle, or awaited, are not over as far "
                             "as the worker knows; their memory is kept.")
      .def(
          "counters", [](WorkerObject& self) { return value(self.open().counters()); },
          "Counters of this worker, with those of its endpoints that have ended.")
      .def_property_readonly(
          "closed", [](const WorkerObject& self) { return !self.is_open(); },
          "Whether close() was called.")
      .def("close", &WorkerObject::close,
           "Ends its endpoints, without waiting for their peers, and its listeners. Transfers that "
           "are under way fail. It may take a few seconds if a peer is gone.");
}

}  // namespace

void bind_worker(py::module_& module) {
  WorkerClass worker(module, "Worker",
                     R"(The part that makes progress for endpoints.

Any thread may use it. A context has one (Context.worker); threads that communicate a lot have one
each (Context.create_worker()). Completions, messages and the watch over peers are looked after
while a thread waits for something of it or calls progress(), while an asyncio event loop runs
that has awaited something of it, or always with progress_thread=True.)");
  worker.def("__enter__", [](const py::object& self) { return self; })
      .def("__exit__", [](WorkerObject& self, const py::args&) { self.close(); })
      .def("__repr__",
           [](const WorkerObject& self) {
             return "<hbmwire.Worker " +
                    (self.is_open() ? std::to_string(self.followed()) + " transfers are followed>"
                                    : "closed>");
           })
      .def(
          "progress",
          [](const SharedWorker& self) {
            WorkerObject::Use shared(self);
            std::size_t handled = 0;
            {
              const WithoutGil released;
              handled = shared->progress();
            }
            self->settle();
            return handled;
          },
          "Handles all that has happened, without waiting. Gives how many completions, messages "
          "and connections that was.");
  bind_waits(worker);
  bind_event_loop(worker);
  bind_connecting(worker);

  py::class_<Pump>(module, "_Pump").def(py::init<WorkerObject&>()).def("turn", &Pump::turn);
  module.def("_on_close", [](WorkerObject& self, py::object call) {
    static_cast<void>(self.open());
    self.on_close(std::move(call));
  });
  module.def("_on_begin",
             [](WorkerObject& self, py::object call) { self.on_begin(std::move(call)); });
  module.def("_close_all", &WorkerObject::close_all);
}

}  // namespace hbmwire::python

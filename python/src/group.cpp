// SPDX-License-Identifier: MIT
#include "hbmwire/group.hpp"

#include <poll.h>
#include <pybind11/stl.h>
#include <unistd.h>

#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arguments.hpp"
#include "context.hpp"
#include "endpoint.hpp"
#include "group_call.hpp"
#include "memory.hpp"
#include "parts.hpp"

namespace hbmwire::python {

namespace {

using namespace std::chrono_literals;
using Finish = GroupCall::Finish;

constexpr std::uint64_t kMostRank = std::numeric_limits<std::uint32_t>::max();

std::uint32_t rank_of(const py::object& rank, const char* name) {
  return static_cast<std::uint32_t>(number_of(rank, name, kMostRank));
}

/// Facts about the group, which stay until its ranks meet again.
struct Facts {
  explicit Facts(const Group& group)
      : rank(group.rank()),
        size(group.size()),
        epoch(group.epoch()),
        launcher(group.launcher()),
        members(group.members()) {}

  std::uint32_t rank;
  std::uint32_t size;
  std::uint32_t epoch;
  std::string launcher;
  std::vector<GroupMember> members;
};

bool is_cancelled(const Wait& wait) noexcept {
  pollfd asked{.fd = wait.cancel_fd, .events = POLLIN, .revents = 0};
  return ::poll(&asked, 1, 0) > 0;
}

/// Calls `body(group)` when no other call uses the group. Errors: the group is closed;
/// Errc::timed_out, Errc::cancelled.
template <class Body>
Result<Finish> call_alone(GroupHold& hold, const Wait& wait, const Body& body) {
  constexpr auto kLook = 10ms;
  std::unique_lock lock(hold.mutex, std::defer_lock);
  while (!lock.try_lock_for(kLook)) {
    const bool cancelled = is_cancelled(wait);
    if (!cancelled && !wait.deadline.passed()) continue;
    return tl::make_unexpected(make_error(cancelled ? Errc::cancelled : Errc::timed_out,
                                          Stage::complete,
                                          "another thread is in a call of the group"));
  }
  if (hold.group) return body(*hold.group);
  return tl::make_unexpected(
      make_error(Errc::invalid_argument, Stage::configure, "the group is closed"));
}

/// hbmwire.Group.
class GroupObject : public Part {
 public:
  GroupObject(SharedWorker worker, Group group)
      : Part(std::move(worker)),
        facts_(group),
        hold_(std::make_shared<GroupHold>()),
        process_(::getpid()) {
    hold_->group.emplace(std::move(group));
  }

  GroupObject(const GroupObject&) = delete;
  GroupObject& operator=(const GroupObject&) = delete;

  ~GroupObject() override { end(); }

  void end() noexcept override {
    end_endpoints();
    const std::shared_ptr<GroupHold> hold = std::exchange(hold_, nullptr);
    if (!hold) return;
    // A child by fork(2) has neither the threads of calls, nor what they hold.
    if (process_ != ::getpid()) return hold->group.reset();
    for (GroupCall* const call : hold->calls) call->cancel();
    const WithoutGil released;
    const std::scoped_lock lock(hold->mutex);
    hold->group.reset();
  }

  [[nodiscard]] bool is_open() const noexcept { return hold_ != nullptr; }

  [[nodiscard]] const Facts& facts() const noexcept { return facts_; }

  void learn(Facts facts) { facts_ = std::move(facts); }

  /// Begins `body(group, wait)`, which gives a function that makes the result.
  template <class Body>
  NewGroupCall start(const py::object& timeout, const Body& body) {
    const std::shared_ptr<GroupHold> hold = open();
    return std::make_unique<GroupCall>(
        worker(), hold, deadline_of(timeout), [hold, body](const Wait& wait) {
          return call_alone(*hold, wait, [&](Group& group) { return body(group, wait); });
        });
  }

  /// The ranks that have gone; while another thread is in a call, as of the last look.
  [[nodiscard]] const std::vector<std::uint32_t>& failed() {
    const std::shared_ptr<GroupHold> hold = open();
    const std::unique_lock lock(hold->mutex, std::try_to_lock);
    if (lock.owns_lock() && hold->group) failed_ = hold->group->failed();
    return failed_;
  }

  /// The object that stands for the group's endpoint to this rank; made if there is none. Call it
  /// within a call of the group, which holds the lock. Raises InvalidArgument: the group was closed
  /// meanwhile.
  [[nodiscard]] py::object endpoint(std::uint32_t rank, Endpoint* of_group) {
    static_cast<void>(open());
    py::object& known = endpoints_[rank];
    if (known && known.cast<EndpointObject&>().is(of_group)) return known;
    if (known) known.cast<EndpointObject&>().end();
    known = py::cast(std::make_unique<EndpointObject>(worker(), of_group));
    return known;
  }

  /// Call it before the group ends its endpoints, which other threads may use.
  void end_endpoints() noexcept {
    for (const auto& [rank, endpoint] : std::exchange(endpoints_, {}))
      endpoint.cast<EndpointObject&>().end();
  }

  void end_endpoint(std::uint32_t rank) noexcept {
    const auto known = endpoints_.find(rank);
    if (known == endpoints_.end()) return;
    known->second.cast<EndpointObject&>().end();
    endpoints_.erase(known);
  }

 private:
  [[nodiscard]] std::shared_ptr<GroupHold> open() const {
    if (!hold_) refuse("the group is closed");
    if (process_ != ::getpid()) {
      raise(make_error(Errc::not_supported, Stage::complete,
                       "the group is of the process before fork()", {}, Hint::forked_nic));
    }
    return hold_;
  }

  Facts facts_;
  std::shared_ptr<GroupHold> hold_;  // null: closed
  std::vector<std::uint32_t> failed_;
  std::map<std::uint32_t, py::object> endpoints_;
  pid_t process_;
};

// --- calls, as they begin

SharedWorker worker_of(const py::object& given) {
  if (auto* const context = object_in<ContextObject>(given)) return context->worker();
  if (py::isinstance<WorkerObject>(given)) return given.cast<SharedWorker>();
  throw wrong_type(given, "worker", "a Worker or a Context is needed");
}

std::optional<std::uint32_t> any_rank_of(const py::object& number, const char* name) {
  if (number.is_none()) return std::nullopt;
  return rank_of(number, name);
}

NewGroupCall start_create(const py::object& given, const py::object& timeout,
                          const std::string& meeting, const py::object& rank,
                          const py::object& size, const std::string& address,
                          const py::kwargs& further) {
  const SharedWorker worker = worker_of(given);
  Options options(further, "Group.create");
  GroupOptions wanted;
  wanted.meeting = meeting;
  wanted.address = address;
  wanted.rank = any_rank_of(rank, "rank");
  wanted.size = any_rank_of(size, "size");
  wanted.endpoint = endpoint_options(options);
  options.done();
  worker->settle_some();
  // The thread alone has this handle of the worker, until it has the group.
  auto body = [held = std::optional<Worker>(worker->open()), worker = std::weak_ptr(worker),
               wanted](const Wait& wait) mutable -> Result<Finish> {
    const Worker own = std::move(*held);
    held.reset();
    HBMWIRE_TRY_ASSIGN(Group made, Group::create(own, wait, wanted));
    const auto group = std::make_shared<Group>(std::move(made));
    return [worker, group] {
      return py::cast(std::make_unique<GroupObject>(worker.lock(), std::move(*group)));
    };
  };
  return std::make_unique<GroupCall>(worker, nullptr, deadline_of(timeout), std::move(body));
}

/// The bytes that a rank gave; None: nothing.
template <class Bytes>
py::object part_of(const Bytes& bytes) {
  if constexpr (requires { bytes.has_value(); }) {
    return bytes ? py::object(to_bytes(*bytes)) : py::object(py::none());
  } else {
    return to_bytes(bytes);
  }
}

template <class All>
Finish list_of_parts(All all) {
  return [all = std::make_shared<const All>(std::move(all))] {
    py::list parts;
    for (const auto& bytes : *all) parts.append(part_of(bytes));
    return py::object(parts);
  };
}

NewGroupCall start_exchange(GroupObject& self, const py::object& data, const py::object& timeout) {
  return self.start(
      timeout, [mine = bytes_of(data, "data")](Group& group, const Wait& wait) -> Result<Finish> {
        HBMWIRE_TRY_ASSIGN(auto all, group.exchange(mine, wait));
        return list_of_parts(std::move(all));
      });
}

NewGroupCall start_exchange_among_present(GroupObject& self, const py::object& data,
                                          const py::object& timeout) {
  return self.start(
      timeout, [mine = bytes_of(data, "data")](Group& group, const Wait& wait) -> Result<Finish> {
        HBMWIRE_TRY_ASSIGN(auto all, group.exchange_among_present(mine, wait));
        return list_of_parts(std::move(all));
      });
}

py::object nothing() { return py::none(); }

NewGroupCall start_barrier(GroupObject& self, const py::object& timeout) {
  return self.start(timeout, [](Group& group, const Wait& wait) -> Result<Finish> {
    HBMWIRE_TRY(group.barrier(wait));
    return nothing;
  });
}

/// `self`: a GroupObject, which the call keeps.
NewGroupCall start_endpoint(const py::object& self, const py::object& to,
                            const py::object& timeout) {
  return self.cast<GroupObject&>().start(
      timeout,
      [self, rank = rank_of(to, "rank")](Group& group, const Wait& wait) -> Result<Finish> {
        HBMWIRE_TRY_ASSIGN(Endpoint* const endpoint, group.endpoint(rank, wait));
        // Makes the Python object within this call: other calls of the group may end the endpoint.
        const py::gil_scoped_acquire gil;
        try {
          return [given = self.cast<GroupObject&>().endpoint(rank, endpoint)] { return given; };
        } catch (py::error_already_set&) {
          return tl::make_unexpected(
              make_error(Errc::invalid_argument, Stage::configure, "the group is closed"));
        }
      });
}

NewGroupCall start_drop(const py::object& self, const py::object& to) {
  return self.cast<GroupObject&>().start(
      py::none(), [self, rank = rank_of(to, "rank")](Group& group, const Wait&) -> Result<Finish> {
        {
          const py::gil_scoped_acquire gil;
          self.cast<GroupObject&>().end_endpoint(rank);
        }
        group.drop_endpoint(rank);
        return nothing;
      });
}

NewGroupCall start_broadcast(GroupObject& self, const py::object& memory, const py::object& root,
                             const py::object& timeout, const py::object& piece_bytes,
                             bool verify) {
  const BroadcastOptions options{.piece_bytes = number_of(piece_bytes, "piece_bytes"),
                                 .verify = verify};
  return self.start(timeout,
                    [slice = local_of(memory), from = rank_of(root, "root"), options](
                        Group& group, const Wait& wait) -> Result<Finish> {
                      HBMWIRE_TRY(group.broadcast(slice.slice(), from, wait, options));
                      return nothing;
                    });
}

NewGroupCall start_rejoin(const py::object& self, const py::object& timeout) {
  return self.cast<GroupObject&>().start(timeout,
                                         [self](Group& group, const Wait& wait) -> Result<Finish> {
                                           {
                                             const py::gil_scoped_acquire gil;
                                             self.cast<GroupObject&>().end_endpoints();
                                           }
                                           HBMWIRE_TRY(group.rejoin(wait));
                                           // Captures this body's `self` by reference, because a
                                           // further copy needs the GIL.
                                           return [&self, facts = std::make_shared<Facts>(group)] {
                                             self.cast<GroupObject&>().learn(std::move(*facts));
                                             return nothing();
                                           };
                                         });
}

std::string show_group(const GroupObject& self) {
  const Facts& facts = self.facts();
  return "<hbmwire.Group rank " + std::to_string(facts.rank) + " of " + std::to_string(facts.size) +
         (self.is_open() ? ", epoch " + std::to_string(facts.epoch) + ">" : ", closed>");
}

/// A call of the group for asyncio: `begin(given...)` is called when the result is awaited.
template <class... Given>
py::object await_call(const py::object& begin, Given&&... given) {
  return in_aio("of_group", begin, std::forward<Given>(given)...);
}

using GroupClass = py::class_<GroupObject>;

constexpr const char* kCreate = R"(Meets the other ranks: waits until all of them are there.

worker: a Worker, or a Context, of which its own is taken.
meeting: "tcp://host:port" (rank 0 listens there), "pmix", "file:///path", "etcd://host:port/name"
or "env"; without it the setting's, or the launcher's. rank, size: likewise.
address: of this machine, for the other ranks; empty: all.
All else as for Worker.connect(), for the endpoints between ranks, without hello and retry_connect.
A process that replaces one that has ended joins by the same call, when the others call rejoin().
Raises NotFound (nothing says where to meet, or which rank this is), TimedOut (its `subject` names
the ranks that did not come), PermissionDenied (the pre-shared keys differ), Busy (another process
has this rank), ProtocolError (the ranks do not agree on the size), InvalidArgument.)";

constexpr const char* kExchange = R"(Gives each rank's bytes to all ranks: a list, by rank.

data: bytes-like, at most 1 MiB. Raises PeerFailed (`subject` names the ranks that have ended, until
rejoin()); TimedOut (the ranks that did not come; no further exchange before rejoin()).
KeyboardInterrupt and a cancelled task end it likewise.)";

constexpr const char* kBroadcast = R"(Brings the bytes of rank `root` to all ranks.

memory: a Slice or a Region, of the same length at all ranks, registered for 'remote_write' but for
the root's. It goes from rank to rank in pieces of `piece_bytes` (4 KiB to 1 GiB).
verify: each rank compares a digest of its memory with the root's.
Raises as exchange(); DataMismatch (`subject` names the ranks whose bytes differ).)";

// NOLINTNEXTLINE(readability-function-size): a table
void bind_calls(GroupClass& group) {
  const double long_time = 60.0;
  const double one_endpoint = 30.0;
  group
      .def(
          "exchange",
          [](GroupObject& self, const py::object& data, const py::object& timeout) {
            return start_exchange(self, data, timeout)->wait();
          },
          py::arg("data"), py::kw_only(), py::arg("timeout") = long_time, kExchange)
      .def(
          "aexchange",
          [](const py::object& self, const py::object& data, const py::object& timeout) {
            return await_call(self.attr("_start_exchange"), data, timeout);
          },
          py::arg("data"), py::kw_only(), py::arg("timeout") = long_time, "exchange() for asyncio.")
      .def(
          "exchange_among_present",
          [](GroupObject& self, const py::object& data, const py::object& timeout) {
            return start_exchange_among_present(self, data, timeout)->wait();
          },
          py::arg("data"), py::kw_only(), py::arg("timeout") = long_time,
          "exchange() among those that are there: None for a rank that has ended, or that has not "
          "come when `timeout` ends at rank 0, which gives it up. Raises PeerFailed (rank 0 has "
          "ended, or this rank was given up), TimedOut (rank 0 does not answer).")
      .def(
          "aexchange_among_present",
          [](const py::object& self, const py::object& data, const py::object& timeout) {
            return await_call(self.attr("_start_exchange_among_present"), data, timeout);
          },
          py::arg("data"), py::kw_only(), py::arg("timeout") = long_time,
          "exchange_among_present() for asyncio.")
      .def(
          "barrier",
          [](GroupObject& self, const py::object& timeout) {
            return start_barrier(self, timeout)->wait();
          },
          py::arg("timeout") = long_time, "exchange() of nothing.")
      .def(
          "abarrier",
          [](const py::object& self, const py::object& timeout) {
            return await_call(self.attr("_start_barrier"), timeout);
          },
          py::arg("timeout") = long_time, "barrier() for asyncio.")
      .def(
          "endpoint",
          [](const py::object& self, const py::object& rank, const py::object& timeout) {
            return start_endpoint(self, rank, timeout)->wait();
          },
          py::arg("rank"), py::kw_only(), py::arg("timeout") = one_endpoint,
          "The Endpoint to another rank, which is made when either of both first asks; the other "
          "one has to make progress. The group's: it ends with drop_endpoint(), rejoin() and "
          "close(). Raises as Worker.connect(), and InvalidArgument (this rank, or none).")
      .def(
          "aendpoint",
          [](const py::object& self, const py::object& rank, const py::object& timeout) {
            return await_call(self.attr("_start_endpoint"), rank, timeout);
          },
          py::arg("rank"), py::kw_only(), py::arg("timeout") = one_endpoint,
          "endpoint() for asyncio.")
      .def(
          "drop_endpoint",
          [](const py::object& self, const py::object& rank) {
            static_cast<void>(start_drop(self, rank)->wait());
          },
          py::arg("rank"), "Ends the endpoint to a rank; the next endpoint() makes another.")
      .def(
          "broadcast",
          [](GroupObject& self, const py::object& memory, const py::object& root,
             const py::object& timeout, const py::object& piece_bytes, bool verify) {
            return start_broadcast(self, memory, root, timeout, piece_bytes, verify)->wait();
          },
          py::arg("memory"), py::arg("root") = 0, py::kw_only(), py::arg("timeout") = long_time,
          py::arg("piece_bytes") = BroadcastOptions{}.piece_bytes, py::arg("verify") = true,
          kBroadcast)
      .def(
          "abroadcast",
          [](const py::object& self, const py::object& memory, const py::object& root,
             const py::object& timeout, const py::object& piece_bytes, bool verify) {
            return await_call(self.attr("_start_broadcast"), memory, root, timeout, piece_bytes,
                              verify);
          },
          py::arg("memory"), py::arg("root") = 0, py::kw_only(), py::arg("timeout") = long_time,
          py::arg("piece_bytes") = BroadcastOptions{}.piece_bytes, py::arg("verify") = true,
          "broadcast() for asyncio.")
      .def(
          "rejoin",
          [](const py::object& self, const py::object& timeout) {
            return start_rejoin(self, timeout)->wait();
          },
          py::arg("timeout") = long_time,
          "Meets again, under a new epoch: the ranks that are left, and processes that replace the "
          "others, which call Group.create(). Its endpoints end. Raises as create(), and may be "
          "called again.")
      .def(
          "arejoin",
          [](const py::object& self, const py::object& timeout) {
            return await_call(self.attr("_start_rejoin"), timeout);
          },
          py::arg("timeout") = long_time, "rejoin() for asyncio.")
      .def("_start_exchange", &start_exchange)
      .def("_start_exchange_among_present", &start_exchange_among_present)
      .def("_start_barrier", &start_barrier)
      .def("_start_endpoint", &start_endpoint)
      .def("_start_broadcast", &start_broadcast)
      .def("_start_rejoin", &start_rejoin);
}

void bind_facts(GroupClass& group) {
  group
      .def_property_readonly(
          "rank", [](const GroupObject& self) { return self.facts().rank; },
          "The number of this process, 0 to size - 1.")
      .def_property_readonly(
          "size", [](const GroupObject& self) { return self.facts().size; },
          "How many processes the group has.")
      .def_property_readonly(
          "epoch", [](const GroupObject& self) { return self.facts().epoch; },
          "1 in a new group, and one more after each rejoin().")
      .def_property_readonly(
          "launcher", [](const GroupObject& self) { return self.facts().launcher; },
          "The source of rank, size and meeting: 'PMIx', \"torchrun's environment\" and so on.")
      .def_property_readonly(
          "members", [](const GroupObject& self) { return self.facts().members; },
          "A GroupMember for each rank, in their order.")
      .def_property_readonly(
          "failed", [](GroupObject& self) { return self.failed(); },
          "Ranks that are known to have ended since the last meeting, or were given up, in their "
          "order. While another thread is in a call of the group, as of the last look.")
      .def_property_readonly(
          "worker", [](const GroupObject& self) { return self.worker(); }, "Its Worker.")
      .def_property_readonly(
          "closed", [](const GroupObject& self) { return !self.is_open(); },
          "Whether it is closed: by close(), or with its worker.")
      .def("close", &GroupObject::end,
           "Leaves the group, and ends its endpoints. The other ranks take that for an end of this "
           "rank, unless all of them leave after the same call.")
      .def(
          "aclose", [](const py::object& self) { return in_aio("close_group", self); },
          "close() for asyncio.");
}

}  // namespace

void bind_group(py::module_& module) {
  py::class_<GroupCall>(module, "_GroupCall")
      .def("fileno", &GroupCall::fd)
      .def("cancel", &GroupCall::cancel)
      .def("take", &GroupCall::take)
      .def_property_readonly("worker", [](const GroupCall& self) { return self.worker(); });
  py::class_<GroupMember>(module, "GroupMember", "One process of a group: Group.members.")
      .def("__repr__",
           [](const GroupMember& self) {
             return "<hbmwire.GroupMember rank " + std::to_string(self.rank) + " on " + self.host +
                    ">";
           })
      .def_readonly("rank", &GroupMember::rank)
      .def_readonly("host", &GroupMember::host, "The name of its machine.")
      .def_readonly("addresses", &GroupMember::addresses, "Where it accepts endpoints.");
  GroupClass group(module, "Group",
                   R"(Processes that a launcher has started together.

Group.create() gives it. All ranks make the same calls in the same order, but for endpoint(). Each
has a deadline, and its error names the ranks that did not come, or have ended. Any thread may use
it, one at a time: a second one waits.)");
  group
      .def_static(
          "create",
          [](const py::object& worker, const py::object& timeout, const std::string& meeting,
             const py::object& rank, const py::object& size, const std::string& address,
             const py::kwargs& options) {
            return start_create(worker, timeout, meeting, rank, size, address, options)->wait();
          },
          py::arg("worker"), py::kw_only(), py::arg("timeout") = 60.0, py::arg("meeting") = "",
          py::arg("rank") = py::none(), py::arg("size") = py::none(), py::arg("address") = "",
          kCreate)
      .def_static(
          "acreate",
          [](const py::object& worker, const py::object& timeout, const std::string& meeting,
             const py::object& rank, const py::object& size, const std::string& address,
             const py::kwargs& options) {
            const auto begin = py::type::of<GroupObject>().attr("_start_create");
            return in_aio("of_group", begin, worker, timeout, meeting, rank, size, address,
                          **options);
          },
          py::arg("worker"), py::kw_only(), py::arg("timeout") = 60.0, py::arg("meeting") = "",
          py::arg("rank") = py::none(), py::arg("size") = py::none(), py::arg("address") = "",
          "create() for asyncio.")
      .def_static("_start_create", &start_create)
      .def("__enter__", [](const py::object& self) { return self; })
      .def("__exit__", [](GroupObject& self, const py::args&) { self.end(); })
      .def("__aenter__", [](const py::object& self) { return in_aio("immediately", self); })
      .def("__aexit__",
           [](const py::object& self, const py::args&) { return in_aio("close_group", self); })
      .def("__repr__", &show_group);
  bind_calls(group);
  bind_facts(group);
}

}  // namespace hbmwire::python

// SPDX-License-Identifier: MIT
#include <pybind11/stl.h>

#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "hbmwire/endpoint.hpp"
#include "hbmwire/memory_key.hpp"

#include "arguments.hpp"
#include "context.hpp"
#include "endpoint.hpp"
#include "keys.hpp"
#include "parts.hpp"
#include "words.hpp"

namespace hbmwire::python {

namespace {

/// hbmwire.Listener.
class ListenerObject : public Part {
 public:
  ListenerObject(SharedWorker worker, Listener listener)
      : Part(std::move(worker)), listener_(std::move(listener)) {}

  void end() noexcept override {
    next_.reset();
    listener_.reset();
    worker()->begun();
  }

  Listener& open() {
    if (!listener_) refuse("the listener is closed");
    return *listener_;
  }

  [[nodiscard]] bool is_open() const noexcept { return listener_.has_value(); }

  /// Whether try_accept() has an endpoint, which this takes from the library.
  bool is_ready() {
    if (!next_) next_ = open().try_accept();
    return next_.has_value();
  }

  NewEndpoint try_accept() {
    if (!is_ready()) return nullptr;
    Endpoint endpoint = std::move(*next_);
    next_.reset();
    return std::make_unique<EndpointObject>(worker(), std::move(endpoint));
  }

  NewEndpoint accept(const Deadline& deadline) {
    NewEndpoint endpoint;
    const bool over = drive_until(worker(), deadline, [&] {
      endpoint = try_accept();
      return endpoint != nullptr;
    });
    if (!over) raise(make_error(Errc::timed_out, Stage::connect, "no peer connected in time"));
    return endpoint;
  }

  void advertise(const std::string& name, const py::object& region, const py::kwargs& options) {
    const SharedRegion hold = object_of<RegionObject>(region, "region", "a Region").open();
    const MemoryKeyOptions wanted = all_key_options(options, "advertise");
    const WorkerObject::Use used(worker());
    Listener shared = open();  // another thread may end this object meanwhile
    value_without_gil([&] { return shared.advertise(name, hold->region, wanted); });
  }

  void withdraw(const std::string& name) {
    const WorkerObject::Use used(worker());
    Listener shared = open();  // as in advertise()
    value_without_gil([&] { return shared.withdraw(name); });
  }

 private:
  std::optional<Listener> listener_;
  std::optional<Endpoint> next_;  // found, but not taken yet
};

using NewListener = std::unique_ptr<ListenerObject>;

/// hbmwire.Invitation.
class InvitationObject : public Part {
 public:
  InvitationObject(SharedWorker worker, EndpointInvitation invitation)
      : Part(std::move(worker)), invitation_(std::move(invitation)) {}

  void end() noexcept override {
    next_.reset();
    invitation_.reset();
    worker()->begun();
  }

  EndpointInvitation& open() {
    if (!invitation_) refuse("the invitation is closed");
    return *invitation_;
  }

  [[nodiscard]] bool is_open() const noexcept { return invitation_.has_value(); }

  /// Starts once for the same bytes, so that a connect() that has timed out may be called again.
  void start(const py::object& theirs) {
    std::vector<std::byte> bytes = bytes_of(theirs, "theirs");
    if (bytes == theirs_) return;
    worker()->settle_some();
    value(open().start(bytes));
    worker()->begun();
    theirs_ = std::move(bytes);
  }

  /// Goes on with the connection. Returns whether take() has an endpoint. Raises why it failed.
  bool is_ready() {
    if (!next_) next_ = value(open().poll());
    return next_.has_value();
  }

  NewEndpoint take() {
    Endpoint endpoint = std::move(next_.value());
    next_.reset();
    return std::make_unique<EndpointObject>(worker(), std::move(endpoint));
  }

  NewEndpoint connect(const py::object& theirs, const Deadline& deadline) {
    start(theirs);
    if (!drive_until(worker(), deadline, [&] { return is_ready(); }))
      raise(make_error(Errc::timed_out, Stage::connect, "the peer did not begin in time"));
    return take();
  }

 private:
  std::optional<EndpointInvitation> invitation_;
  std::optional<Endpoint> next_;   // connected, but not taken yet
  std::vector<std::byte> theirs_;  // the peer's bytes with which start() has begun
};

// --- operations that a worker begins, or a context with its own worker

/// Refuses further positional arguments: host and port are one argument.
void check_no_more(const py::args& more) {
  if (more.empty()) return;
  throw py::type_error("connect() takes \"host:port\" in one string, and all else by name");
}

std::unique_ptr<ConnectingObject> start_connect(const SharedWorker& worker, const py::object& where,
                                                const py::object& timeout,
                                                const py::kwargs& given) {
  if (!PyUnicode_Check(where.ptr()))
    throw wrong_type(where, "peer", "\"host:port\" in one string is needed");
  const auto peer = where.cast<std::string>();
  Options options(given, "connect");
  const EndpointOptions wanted = endpoint_options(options);
  options.done();
  worker->settle_some();
  PendingEndpoint pending =
      value(Endpoint::start_connect(worker->open(), peer, deadline_of(timeout), wanted));
  return std::make_unique<ConnectingObject>(worker, std::move(pending));
}

NewEndpoint connect(const SharedWorker& worker, const py::object& peer, const py::args& more,
                    const py::object& timeout, const py::kwargs& options) {
  check_no_more(more);
  const auto connecting = start_connect(worker, peer, timeout, options);
  connecting->wait(Deadline::never());
  return std::make_unique<EndpointObject>(worker, connecting->take());
}

NewListener listen(const SharedWorker& worker, const py::object& port, const py::object& address,
                   const py::kwargs& given) {
  Options options(given, "listen");
  ListenerOptions wanted = listener_options(options);
  options.done();
  wanted.port = static_cast<std::uint16_t>(
      number_of(port, "port", std::numeric_limits<std::uint16_t>::max()));
  wanted.address = text_of(address, "address");
  worker->settle_some();
  WorkerObject::Use shared(worker);
  return std::make_unique<ListenerObject>(
      worker, value_without_gil([&] { return Listener::create(*shared, wanted); }));
}

std::unique_ptr<InvitationObject> invite(const SharedWorker& worker, const py::kwargs& given) {
  Options options(given, "invite");
  const EndpointOptions wanted = endpoint_options(options);
  options.done();
  WorkerObject::Use shared(worker);
  return std::make_unique<InvitationObject>(
      worker, value_without_gil([&] { return EndpointInvitation::create(*shared, wanted); }));
}

py::object aconnect(const py::object& worker, const py::object& peer, const py::args& more,
                    const py::object& timeout, const py::kwargs& options) {
  check_no_more(more);
  return in_aio("Connecting", worker, peer, timeout, options);
}

constexpr const char* kConnect = R"(Connects to a Listener at "host:port".

timeout: seconds; None: for ever.
hello: up to 1,024 bytes for the peer's Endpoint.peer_hello.
pre_shared_key: both ends prove to each other that they know it.
require, allow: paths, as for Context.
retry_connect: tries again until the deadline where the peer refuses for a reason that may pass.
peer_timeout: seconds until a peer that is gone is noticed (2).
operation_timeout: seconds after which an operation fails, and the endpoint with it (30).
messages: 'matched' for receive(), 'handed_out' for Worker.next_message().
send_depth, receive_depth, eager_bytes, unexpected_bytes: what it holds at a time.
link: a dict of service_level, traffic_class, pkey_index, mtu_bytes, ack_timeout, retry_count and
rnr_retry.
Raises TimedOut, PeerFailed, PermissionDenied (the keys differ), ProtocolError, NotFound (no such
host), InvalidArgument.)";

constexpr const char* kListen = R"(Listens for peers.

port: 0 takes a free one. address: one of this machine's; empty: all, IPv4 and IPv6.
rdma_cm: by the RDMA connection manager instead of TCP.
handshake_timeout: seconds that a handshake may take (5). max_handshakes: peers at a time (64).
All else as for connect(), for each endpoint that is accepted.
Raises Busy or PermissionDenied (the port), InvalidArgument.)";

}  // namespace

void bind_connecting(py::class_<WorkerObject, SharedWorker>& worker) {
  worker.def("connect", &connect, py::arg("peer"), py::arg("timeout") = 30.0, kConnect)
      .def("aconnect", &aconnect, py::arg("peer"), py::arg("timeout") = 30.0,
           "connect() for asyncio: `await` it, or `async with` it.")
      .def("listen", &listen, py::arg("port") = 0, py::arg("address") = "", kListen)
      .def("invite", &invite,
           "Makes an Invitation: a connection without a listener. Arguments as for connect().")
      .def("_start_connect", &start_connect);
}

// NOLINTNEXTLINE(readability-function-size): a table
void bind_listener(py::module_& module) {
  py::class_<ListenerObject>(module, "Listener",
                             "Where peers connect. Their handshakes go on while its worker makes "
                             "progress; accept() takes an endpoint that is ready.")
      .def("__enter__", [](const py::object& self) { return self; })
      .def("__exit__", [](ListenerObject& self, const py::args&) { self.end(); })
      .def("__aiter__", [](const py::object& self) { return self; })
      .def("__anext__", [](const py::object& self) { return in_aio("next_peer", self); })
      .def("__repr__",
           [](ListenerObject& self) {
             if (!self.is_open()) return std::string("<hbmwire.Listener closed>");
             return "<hbmwire.Listener at port " + std::to_string(self.open().port()) + ">";
           })
      .def_property_readonly(
          "port", [](ListenerObject& self) { return self.open().port(); },
          "The port that it listens on.")
      .def_property_readonly(
          "addresses", [](ListenerObject& self) { return value(self.open().addresses()); },
          "Where others reach it, for Context.connect(), the most useful first.")
      .def_property_readonly(
          "worker", [](ListenerObject& self) { return self.worker(); }, "Its Worker.")
      .def_property_readonly(
          "closed", [](ListenerObject& self) { return !self.is_open(); },
          "Whether close() was called.")
      .def(
          "accept",
          [](ListenerObject& self, const py::object& timeout) {
            return self.accept(deadline_of(timeout));
          },
          py::arg("timeout") = py::none(),
          "The next peer's Endpoint. Raises TimedOut after `timeout` seconds; None: never.")
      .def("_is_ready", &ListenerObject::is_ready)
      .def("try_accept", &ListenerObject::try_accept,
           "The next peer's Endpoint if there is one, else None. Never waits.")
      .def(
          "aaccept",
          [](const py::object& self, const py::object& timeout) {
            return in_aio("accept", self, timeout);
          },
          py::arg("timeout") = py::none(), "accept() for asyncio; `async for` takes one by one.")
      .def("advertise", &ListenerObject::advertise, py::arg("name"), py::arg("region"),
           "Lets peers ask for this memory by name (Endpoint.remote()). Options as for "
           "Region.pack_key(). Raises Busy (the name is taken).")
      .def("withdraw", &ListenerObject::withdraw, py::arg("name"),
           "Takes the name back, and the key if it is revocable. Raises NotFound.")
      .def("close", &ListenerObject::end, "Ends it; endpoints that were accepted go on.");
  py::class_<InvitationObject>(module, "Invitation",
                               "A connection without a listener: bytes(invitation) go to the peer, "
                               "and connect() takes the peer's.")
      .def("__bytes__", [](InvitationObject& self) { return to_bytes(self.open().bytes()); })
      .def("__repr__",
           [](InvitationObject& self) {
             return self.is_open() ? "<hbmwire.Invitation>" : "<hbmwire.Invitation closed>";
           })
      .def("__enter__", [](const py::object& self) { return self; })
      .def("__exit__", [](InvitationObject& self, const py::args&) { self.end(); })
      .def(
          "connect",
          [](InvitationObject& self, const py::object& theirs, const py::object& timeout) {
            return self.connect(theirs, deadline_of(timeout));
          },
          py::arg("theirs"), py::arg("timeout") = 30.0,
          "Begins with the peer's bytes, and gives the Endpoint when the peer has begun, too. "
          "Raises TimedOut, ProtocolError, PermissionDenied, InvalidArgument.")
      .def(
          "aconnect",
          [](const py::object& self, const py::object& theirs, const py::object& timeout) {
            return in_aio("accept_invitation", self, theirs, timeout);
          },
          py::arg("theirs"), py::arg("timeout") = 30.0, "connect() for asyncio.")
      .def("close", &InvitationObject::end, "The peer can't connect by it any more.")
      .def_property_readonly(
          "worker", [](InvitationObject& self) { return self.worker(); }, "Its Worker.")
      .def("_start", &InvitationObject::start)
      .def("_is_ready", &InvitationObject::is_ready)
      .def("_take", &InvitationObject::take);
}

}  // namespace hbmwire::python

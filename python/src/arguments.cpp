// SPDX-License-Identifier: MIT
#include "arguments.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "words.hpp"

namespace hbmwire::python {

using std::chrono::nanoseconds;

nanoseconds duration_of(py::handle seconds, const char* name) {
  if (seconds.is_none()) return nanoseconds::max();
  const double number = PyFloat_AsDouble(seconds.ptr());
  if (number == -1.0 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw py::type_error(std::string(name) + ": seconds are needed as a number, or None for ever");
  }
  if (std::isnan(number)) throw py::value_error(std::string(name) + ": not a number");
  constexpr double kMost = 9.2e9;  // seconds that fit into 64 bits of nanoseconds
  if (number >= kMost) return nanoseconds::max();
  if (number <= 0) return nanoseconds::zero();
  return std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double>(number));
}

Deadline deadline_of(py::handle seconds) {
  return Deadline::after(duration_of(seconds, "timeout"));
}

py::type_error wrong_type(py::handle given, const char* name, const char* needed) {
  return py::type_error(std::string(name) + ": " + needed + ", not " +
                        std::string(py::str(py::type::handle_of(given).attr("__name__"))));
}

py::iterator items_of(py::handle several, const char* name, const char* needed) {
  if (!py::hasattr(several, "__iter__") && PySequence_Check(several.ptr()) == 0)
    throw wrong_type(several, name, needed);
  return py::iter(several);
}

std::uint64_t number_of(py::handle number, const char* name, std::uint64_t most) {
  if (PyIndex_Check(number.ptr()) == 0) throw wrong_type(number, name, "a number is needed");
  const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(number.ptr()));
  if (!index) throw py::error_already_set();
  const auto value = PyLong_AsUnsignedLongLong(index.ptr());
  const bool failed = value == static_cast<unsigned long long>(-1) && PyErr_Occurred() != nullptr;
  if (failed) PyErr_Clear();
  if (!failed && value <= most) return value;
  throw py::value_error(std::string(name) + ": between 0 and " + std::to_string(most) + ", not " +
                        std::string(py::repr(number)));
}

std::vector<std::byte> bytes_of(py::handle data, const char* name) {
  Py_buffer view{};
  if (PyObject_GetBuffer(data.ptr(), &view, PyBUF_SIMPLE) != 0) {
    PyErr_Clear();
    throw py::type_error(std::string(name) + ": bytes are needed");
  }
  const auto* const first = static_cast<const std::byte*>(view.buf);
  std::vector<std::byte> bytes(first, first + view.len);
  PyBuffer_Release(&view);
  return bytes;
}

py::bytes to_bytes(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Access access_of(py::handle words) {
  if (PyUnicode_Check(words.ptr())) return from_word<Access>(words);
  Access access = Access::none;
  for (const py::handle word : items_of(words, "access", "words are needed"))
    access = access | from_word<Access>(word);
  return access;
}

std::vector<std::string> strings_of(py::handle strings) {
  std::vector<std::string> all;
  if (PyUnicode_Check(strings.ptr())) {
    all.push_back(strings.cast<std::string>());
    return all;
  }
  for (const py::handle one : items_of(strings, "nics", "names are needed"))
    all.emplace_back(text_of(one, "a name"));
  return all;
}

PathPolicy policy_of(py::handle require, py::handle allow) {
  PathPolicy policy;
  if (!require.is_none()) policy.require = from_word<Path>(require);
  if (PyUnicode_Check(allow.ptr())) {
    policy.allow.push_back(from_word<Path>(allow));
    return policy;
  }
  for (const py::handle path : items_of(allow, "allow", "paths are needed"))
    policy.allow.push_back(from_word<Path>(path));
  return policy;
}

std::optional<py::object> Options::take(const char* name) {
  if (!left_.contains(name)) return std::nullopt;
  return left_.attr("pop")(name);
}

namespace {

template <class Value>
void assign(const std::optional<py::object>& given, const char* name, Value& to) {
  if (!given) return;
  to = static_cast<Value>(number_of(*given, name, std::numeric_limits<Value>::max()));
}

}  // namespace

void Options::take(const char* name, bool& to) {
  if (const auto given = take(name)) to = cast_of<bool>(*given, name, "True or False is needed");
}

void Options::take(const char* name, std::uint32_t& to) { assign(take(name), name, to); }

void Options::take(const char* name, std::uint64_t& to) { assign(take(name), name, to); }

void Options::take(const char* name, int& to) {
  if (const auto given = take(name)) to = cast_of<int>(*given, name, "a small number is needed");
}

void Options::take(const char* name, std::string& to) {
  if (const auto given = take(name)) to = text_of(*given, name);
}

std::string device_of(py::handle device) {
  if (PyIndex_Check(device.ptr()) != 0) return std::to_string(number_of(device, "device"));
  return std::string(text_of(device, "device"));
}

void Options::take(const char* name, nanoseconds& to) {
  if (const auto given = take(name)) to = duration_of(*given, name);
}

void Options::take(const char* name, std::vector<std::byte>& to) {
  if (const auto given = take(name)) to = bytes_of(*given, name);
}

void Options::done() const {
  if (left_.empty()) return;
  std::string text = std::string(call_) + "() has no argument";
  for (const auto& [name, value] : left_) text += " " + std::string(py::repr(name));
  throw py::type_error(text);
}

namespace {

LinkOptions link_options(const py::object& given) {
  if (!py::isinstance<py::dict>(given)) throw wrong_type(given, "link", "a dict is needed");
  Options options(py::reinterpret_borrow<py::kwargs>(given), "link");
  LinkOptions link;
  options.take("service_level", link.service_level);
  options.take("traffic_class", link.traffic_class);
  options.take("pkey_index", link.pkey_index);
  options.take("mtu_bytes", link.mtu_bytes);
  options.take("ack_timeout", link.ack_timeout);
  options.take("retry_count", link.retry_count);
  options.take("rnr_retry", link.rnr_retry);
  options.done();
  return link;
}

}  // namespace

EndpointOptions endpoint_options(Options& options) {
  EndpointOptions endpoint;
  options.take("send_depth", endpoint.send_depth);
  options.take("receive_depth", endpoint.receive_depth);
  options.take("eager_bytes", endpoint.eager_bytes);
  options.take("unexpected_bytes", endpoint.unexpected_bytes);
  if (const auto mode = options.take("messages")) endpoint.messages = from_word<MessageMode>(*mode);
  options.take("peer_timeout", endpoint.peer_timeout);
  options.take("operation_timeout", endpoint.operation_timeout);
  options.take("pre_shared_key", endpoint.pre_shared_key);
  const auto require = options.take("require");
  const auto allow = options.take("allow");
  endpoint.paths = policy_of(require.value_or(py::none()), allow.value_or(py::tuple()));
  options.take("retry_connect", endpoint.retry_connect);
  options.take("hello", endpoint.hello);
  if (const auto link = options.take("link")) endpoint.link = link_options(*link);
  return endpoint;
}

ListenerOptions listener_options(Options& options) {
  ListenerOptions listener;
  options.take("rdma_cm", listener.rdma_cm);
  options.take("handshake_timeout", listener.handshake_timeout);
  options.take("max_handshakes", listener.max_handshakes);
  listener.endpoint = endpoint_options(options);
  return listener;
}

WorkerOptions worker_options(Options& options, const WorkerOptions& defaults) {
  WorkerOptions worker = defaults;
  options.take("max_transfers", worker.max_transfers);
  options.take("progress_thread", worker.progress_thread);
  options.take("eager_bytes", worker.eager_bytes);
  options.take("receive_pool_bytes", worker.receive_pool_bytes);
  options.take("unexpected_bytes", worker.unexpected_bytes);
  options.take("times", worker.times);
  return worker;
}

MemoryOptions memory_options(Options& options) {
  MemoryOptions memory;
  if (const auto device = options.take("device")) memory.device = device_of(*device);
  if (const auto owner = options.take("owner"))
    memory.owner = from_word<MemoryOptions::Owner>(*owner);
  if (const auto pages = options.take("pages"))
    memory.host.pages = from_word<HostMemoryOptions::Pages>(*pages);
  options.take("shared", memory.host.shared);
  options.take("numa_node", memory.host.numa_node);
  return memory;
}

MemoryKeyOptions key_options(Options& options) {
  MemoryKeyOptions key;
  options.take("offset", key.offset_bytes);
  options.take("length", key.length_bytes);
  if (const auto access = options.take("access"); access && !access->is_none())
    key.access = access_of(*access);
  options.take("revocable", key.revocable);
  if (const auto after = options.take("expires_after"); after && !after->is_none())
    key.expires_after = duration_of(*after, "expires_after");
  return key;
}

}  // namespace hbmwire::python

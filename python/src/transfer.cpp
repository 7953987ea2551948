// SPDX-License-Identifier: MIT
#include "transfer.hpp"

#include <pybind11/stl.h>

#include <chrono>
#include <optional>
#include <string>

#include "arguments.hpp"
#include "direct_method.hpp"
#include "parts.hpp"
#include "words.hpp"

namespace hbmwire::python {

namespace {

double seconds(std::chrono::steady_clock::time_point at) {
  return std::chrono::duration<double>(at.time_since_epoch()).count();
}

std::optional<double> seconds(const std::optional<std::chrono::steady_clock::time_point>& at) {
  if (!at) return std::nullopt;
  return seconds(*at);
}

template <class Enum>
std::optional<std::string_view> word_of(const std::optional<Enum>& value) {
  if (!value) return std::nullopt;
  return python::word_of(*value);
}

/// The better paths of this end's memory, and why they were not taken.
py::dict refusals(const TransferReport& report) {
  py::dict all;
  // Host memory has no better path.
  if (report.local_type == MemoryType::host) return all;
  for (const PathTried& tried : report.local) {
    if (tried.taken) break;
    if (tried.refusal) all[py::str(python::word_of(tried.path))] = describe(*tried.refusal);
  }
  return all;
}

std::string why_not(const PathTried& tried) {
  return tried.refusal ? describe(*tried.refusal) : std::string();
}

void bind_report(py::module_& module) {
  py::class_<TransferTimes>(module, "Times",
                            "When a transfer was asked for, posted and over "
                            "(times=True of the worker): as time.monotonic().")
      .def("__repr__",
           [](const TransferTimes& self) {
             if (!self.over) return std::string("<hbmwire.Times, under way>");
             using Microseconds = std::chrono::duration<double, std::micro>;
             return "<hbmwire.Times, " +
                    std::to_string(Microseconds(*self.over - self.asked).count()) +
                    " us from asked to over>";
           })
      .def_property_readonly("asked", [](const TransferTimes& self) { return seconds(self.asked); })
      .def_property_readonly("posted",
                             [](const TransferTimes& self) { return seconds(self.posted); })
      .def_property_readonly("over", [](const TransferTimes& self) { return seconds(self.over); });
  py::class_<TransferReport>(module, "Report", "How a transfer went, as far as it is known yet.")
      .def("__str__", [](const TransferReport& self) { return describe(self); })
      .def("__repr__",
           [](const TransferReport& self) {
             return "<hbmwire.Report " + std::string(python::word_of(self.path)) + ", " +
                    std::string(python::word_of(self.protocol)) + ">";
           })
      .def_property_readonly(
          "path", [](const TransferReport& self) { return python::word_of(self.path); },
          "'copy', 'ipc', 'shared_memory', or the worse one of both ends' paths.")
      .def_property_readonly(
          "protocol", [](const TransferReport& self) { return python::word_of(self.protocol); },
          "How the bytes were handed over: 'direct', 'eager', 'rendezvous_read', ...")
      .def_readonly("nic", &TransferReport::nic, "This end's NIC.")
      .def_readonly("peer", &TransferReport::peer, "The peer, as it was connected to.")
      .def_property_readonly(
          "local_type", [](const TransferReport& self) { return python::word_of(self.local_type); },
          "The type of this end's memory.")
      .def_property_readonly(
          "remote_type", [](const TransferReport& self) { return word_of(self.remote_type); },
          "The type of the peer's memory; None if this end does not learn it.")
      .def_property_readonly(
          "remote_path", [](const TransferReport& self) { return word_of(self.remote_path); },
          "The path of the peer's memory; None if this end does not learn it.")
      .def_property_readonly("refusals", &refusals,
                             "For each better path of this end's memory, why it was not taken.")
      .def_property_readonly(
          "copy", [](const TransferReport& self) { return why_not(self.copy); },
          "Why no engine of this process carried it; empty: one did, or there is none to ask.")
      .def_property_readonly(
          "ipc", [](const TransferReport& self) { return why_not(self.ipc); },
          "Why no engine of the peer's process carried it, or of host memory of two processes of a "
          "node, why it did not go by shared memory; empty as `copy`.")
      .def_property_readonly(
          "rails",
          [](const TransferReport& self) {
            std::vector<std::pair<std::string, std::uint64_t>> all;
            for (const RailReport& rail : self.rails) all.emplace_back(rail.nic, rail.bytes);
            return all;
          },
          "The NICs of a transfer that went by several, with the bytes that each carried.")
      .def_readonly("times", &TransferReport::times, "Times, or None without times=True.");
}

std::string show_transfer(TransferObject& self) {
  const std::string bytes = std::to_string(self.transfer().bytes()) + " bytes";
  if (!self.transfer().done()) return "<hbmwire.Transfer under way, " + bytes + ">";
  const auto ended = self.transfer().poll();
  if (ended)
    return "<hbmwire.Transfer over, " + bytes + ", " +
           std::string(python::word_of(self.transfer().path())) + ">";
  return "<hbmwire.Transfer failed: " + describe(ended.error()) + ">";
}

/// Transfer::cancel() in steps, so that Ctrl-C interrupts it.
void cancel(TransferObject& self) {
  Transfer& transfer = self.transfer();
  if (transfer.done()) return;
  value(transfer.request_cancel());
  wait_in_steps(
      Deadline::never(),
      // After an error it is over, too.
      [&](const Wait& step) -> Result<bool> { return transfer.poll_until(step).value_or(true); },
      [] {});
  self.worker()->settle_some();
  if (transfer.poll() || transfer.settled()) return;
  raise(make_error(Errc::timed_out, Stage::complete, "the peer did not say that its side is closed",
                   {}, Hint::peer_unsettled));
}

void bind_waitable(py::module_& module) {
  py::class_<Waitable>(module, "_Waitable", py::module_local())
      .def("poll", &Waitable::poll,
           "Whether it is over. Drives the worker once and never waits. Raises why it failed.")
      .def_property_readonly(
          "done", [](Waitable& self) { return self.transfer().done(); },
          "Whether it is over, successfully or not; drives nothing.")
      .def_property_readonly(
          "worker", [](const Waitable& self) { return self.worker(); },
          "The Worker that it belongs to.")
      .def_property_readonly(
          "_worker_fd",
          [](const Waitable& self) {
            return self.worker()->is_open() ? self.worker()->open().fd() : -1;
          },
          "The worker's descriptor; -1: it is closed. Makes no object for the worker.")
      .def("_notify", &Waitable::notify)
      .def("_forget", &Waitable::forget);
}

py::object wait(py::handle self, const Given& given) {
  static const Parameters<1> kParameters("wait", 1, 0, {"timeout"});
  const auto [timeout] = kParameters.match(given);
  TransferObject& transfer = *object_in<TransferObject>(self);
  const auto time = duration_of(timeout ? timeout : py::handle(Py_None), "timeout");
  if (!transfer.poll()) transfer.wait(Deadline::after(time));
  return py::reinterpret_borrow<py::object>(self);
}

constexpr const char* kWait = R"(wait($self, timeout=None)
--

Waits until it is over, and gives it.

timeout: seconds; None: for ever. Raises TimedOut after them, and it goes on; otherwise why it
failed. The endpoint's operation_timeout bounds most.)";

}  // namespace

void bind_transfer(py::module_& module) {
  bind_report(module);
  bind_waitable(module);
  // Local to this module: other pybind11 modules need not find the class, and this one finds it
  // faster.
  py::class_<TransferObject, Waitable> transfer(module, "Transfer", py::module_local(),
                                                R"(An operation that was started.

wait() or await it. A wait that times out, Ctrl-C and a cancelled task leave it under way; cancel()
ends it. Its memory is kept until it is over, also when this object is dropped before.)");
  add_direct_method<&wait>(transfer, "wait", kWait);
  transfer
      .def("cancel", &cancel,
           "Ends it, complete or not, and waits until neither end's memory can change by it any "
           "more. Unless it is a receive that nothing has matched, the connection is broken for "
           "that. Raises TimedOut if the peer does not say so within peer_timeout. After Ctrl-C it "
           "is as with request_cancel().")
      .def(
          "request_cancel", [](TransferObject& self) { value(self.transfer().request_cancel()); },
          "cancel() without waiting: poll(), wait() or await tell when it is over.")
      .def("__await__",
           [](const py::object& self) { return in_aio("finish", self).attr("__await__")(); })
      .def("__repr__", &show_transfer)
      .def_property_readonly(
          "bytes", [](TransferObject& self) { return self.transfer().bytes(); },
          "The length in bytes; of a receive that is over, of the message that came.")
      .def_property_readonly(
          "value",
          [](TransferObject& self) {
            if (!self.transfer().done())
              raise(make_error(Errc::busy, Stage::complete,
                               "the operation is not over: wait() first"));
            return self.transfer().value();
          },
          "The result: of an atomic what was there before, of receive_immediate() the immediate, "
          "of "
          "a tagged receive the tag. Raises Busy before it is over.")
      .def_property_readonly(
          "path", [](TransferObject& self) { return python::word_of(self.transfer().path()); },
          "The path by which it goes: the worse one of both ends'.")
      .def_property_readonly(
          "settled", [](TransferObject& self) { return self.transfer().settled(); },
          "After a failure: whether the peer's memory can't change by it any more.")
      .def_property_readonly(
          "report", [](TransferObject& self) { return self.transfer().explain(); },
          "How it goes, or went: a Report.")
      .def(
          "explain", [](TransferObject& self) { return describe(self.transfer().explain()); },
          "The report as a sentence, with the reasons why no better path was taken.");
}

}  // namespace hbmwire::python

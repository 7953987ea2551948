// SPDX-License-Identifier: MIT
#include "message.hpp"

#include <pybind11/stl.h>

#include <string>

#include "arguments.hpp"
#include "parts.hpp"
#include "transfer.hpp"

namespace hbmwire::python {

IncomingMessage& MessageObject::open() {
  if (!message_) refuse("the message was received already, or let go");
  return message_;
}

namespace {

py::bytes data_of(MessageObject& self) {
  const IncomingMessage& message = self.open();
  if (message.is_here()) return to_bytes(message.bytes());
  refuse("the message is at its sender still; receive() brings it to memory");
}

NewTransfer receive(MessageObject& self, const py::object& into) {
  const SliceObject slice = local_of(into);
  self.worker()->settle_some();
  Transfer transfer = value(self.open().receive(slice.slice()));
  return std::make_unique<TransferObject>(self.worker(), std::move(transfer), Keep(slice.hold));
}

std::string show_message(MessageObject& self) {
  if (!self.is_open()) return "<hbmwire.Message closed>";
  const IncomingMessage& message = self.open();
  return "<hbmwire.Message " + std::to_string(message.length_bytes()) + " bytes" +
         (message.tag() ? ", tag " + std::to_string(*message.tag()) : "") +
         (message.is_here() ? ">" : ", at its sender>");
}

}  // namespace

void bind_message(py::module_& module) {
  py::class_<MessageObject>(module, "Message",
                            R"(A message of an endpoint that hands its messages out.

It keeps one of the places that the peer's messages have: take what it has and let it go soon
(close(), or drop it).)")
      .def("__len__", [](MessageObject& self) { return self.length(); })
      .def("__bool__", &MessageObject::is_open)
      .def("__enter__", [](const py::object& self) { return self; })
      .def("__exit__", [](MessageObject& self, const py::args&) { self.close(); })
      .def("__repr__", &show_message)
      .def_property_readonly(
          "nbytes", [](MessageObject& self) { return self.length(); },
          "The length in bytes. A message of none is true, too.")
      .def_property_readonly(
          "endpoint_id", [](MessageObject& self) { return self.endpoint_id(); },
          "Endpoint.id of the endpoint that it came by.")
      .def_property_readonly(
          "tag", [](MessageObject& self) { return self.tag(); },
          "Its tag; None if it was sent without one.")
      .def_property_readonly(
          "is_here", [](MessageObject& self) { return self.open().is_here(); },
          "Whether `data` has it. Else its sender has it still: it has more than eager_bytes, or "
          "is of device memory.")
      .def_property_readonly("data", &data_of,
                             "A copy of its bytes. Raises InvalidArgument if it is not here.")
      .def("receive", &receive, py::arg("into"),
           "Brings it to memory of this end, and lets it go here: a Transfer. Raises as "
           "Endpoint.receive().")
      .def("close", &MessageObject::close,
           "Lets it go. Where it is not here, its sender's transfer fails.");
}

}  // namespace hbmwire::python

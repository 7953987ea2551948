// SPDX-License-Identifier: MIT
#include "attach.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <string>
#include <utility>

#include "arguments.hpp"
#include "errors.hpp"
#include "parts.hpp"
#include "words.hpp"

namespace hbmwire::python {

const AttachAddress& PublicationObject::address() const {
  if (!publication) refuse("the publication is closed");
  return publication->address();
}

namespace {

/// The secret, and behind it the socket's name.
py::bytes address_bytes(const AttachAddress& address) {
  std::string bytes(address.secret.begin(), address.secret.end());
  return bytes + address.socket;
}

AttachAddress address_of(const py::object& data) {
  const std::vector<std::byte> bytes = bytes_of(data, "data");
  AttachAddress address;
  constexpr std::size_t kLongestName = 100;  // an abstract socket's has 107 bytes at most (unix(7))
  if (bytes.size() <= address.secret.size() ||
      bytes.size() > address.secret.size() + kLongestName) {
    refuse("these are no bytes of an AttachAddress");
  }
  std::transform(bytes.begin(), bytes.begin() + address.secret.size(), address.secret.begin(),
                 [](std::byte byte) { return std::to_integer<std::uint8_t>(byte); });
  std::transform(bytes.begin() + address.secret.size(), bytes.end(),
                 std::back_inserter(address.socket),
                 [](std::byte byte) { return std::to_integer<char>(byte); });
  return address;
}

/// hbmwire.AttachListener.
struct AttachListenerObject {
  std::shared_ptr<AttachListener> listener;  // null: closed

  /// A call without the GIL must hold the result, since another thread may close the listener.
  [[nodiscard]] std::shared_ptr<AttachListener> open() const {
    if (!listener) refuse("the attach listener is closed");
    return listener;
  }
};

}  // namespace

void bind_attach(py::module_& module) {
  py::class_<AttachAddress>(module, "AttachAddress",
                            "Where a process of the same node gets the dma-buf of a region: "
                            "bytes(address) go to it. Every process that has them may attach.")
      .def(py::init(&address_of), py::arg("data"))
      .def("__bytes__", &address_bytes)
      .def("__repr__",
           [](const AttachAddress& self) { return "<hbmwire.AttachAddress " + self.socket + ">"; });
  py::class_<PublicationObject>(module, "Publication",
                                "Memory that processes of this node may attach to as long as this "
                                "lives.")
      .def("__repr__",
           [](const PublicationObject& self) {
             if (!self.publication) return std::string("<hbmwire.Publication closed>");
             return "<hbmwire.Publication at " + self.address().socket + ">";
           })
      .def_property_readonly(
          "address", [](const PublicationObject& self) { return self.address(); },
          "Its AttachAddress.")
      .def("__enter__", [](const py::object& self) { return self; })
      .def("__exit__", [](PublicationObject& self, const py::args&) { self.publication.reset(); })
      .def(
          "close", [](PublicationObject& self) { self.publication.reset(); },
          "Withdraws the memory: no further process gets it.");
  py::class_<AttachListenerObject>(module, "AttachListener",
                                   "Gives dma-bufs of regions to processes of this node and user. "
                                   "Poll fileno(), and call progress() when it is readable.")
      .def(py::init([] {
        return AttachListenerObject{
            std::make_shared<AttachListener>(value(AttachListener::create()))};
      }))
      .def("__repr__",
           [](const AttachListenerObject& self) {
             return self.listener ? "<hbmwire.AttachListener>" : "<hbmwire.AttachListener closed>";
           })
      .def("__enter__", [](const py::object& self) { return self; })
      .def("__exit__", [](AttachListenerObject& self, const py::args&) { self.listener.reset(); })
      .def(
          "publish",
          [](AttachListenerObject& self, const RegionObject& region) {
            const SharedRegion hold = region.open();
            const auto listener = self.open();
            return PublicationObject{
                value_without_gil([&] { return listener->publish(hold->region); })};
          },
          py::arg("region"),
          "Lets others attach to all of the region. Raises NotSupported for host memory.")
      .def(
          "fileno", [](AttachListenerObject& self) { return self.open()->fd(); },
          "Readable when there is something for progress() to do.")
      .def(
          "progress", [](AttachListenerObject& self) { value(self.open()->progress()); },
          "Answers the processes that have asked. Never waits.")
      .def(
          "close", [](AttachListenerObject& self) { self.listener.reset(); }, "Ends it.");
  py::class_<AttachedMemory>(module, "AttachedMemory",
                             "Memory of another process of this node, which Context.register() "
                             "takes. It stays after its exporter has freed it or has died.")
      .def("__repr__",
           [](const AttachedMemory& self) {
             return "<hbmwire.AttachedMemory " + std::string(word_of(self.type)) + " " +
                    std::to_string(self.memory.size_bytes()) + " bytes>";
           })
      .def_property_readonly(
          "type", [](const AttachedMemory& self) { return word_of(self.type); },
          "Its type at the exporter.")
      .def_readonly("exporter_address", &AttachedMemory::exporter_address,
                    "The address of its first byte there.")
      .def_readonly("writable", &AttachedMemory::writable,
                    "False: it can be registered for reading alone.")
      .def_property_readonly(
          "nbytes", [](const AttachedMemory& self) { return self.memory.size_bytes(); },
          "The length in bytes.");
}

}  // namespace hbmwire::python

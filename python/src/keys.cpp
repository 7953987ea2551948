// SPDX-License-Identifier: MIT
#include "keys.hpp"

#include <pybind11/stl.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "arguments.hpp"
#include "attach.hpp"
#include "errors.hpp"
#include "parts.hpp"
#include "words.hpp"

namespace hbmwire::python {

std::shared_ptr<MemoryKey> KeyObject::open() const {
  if (!key) refuse("the key is closed");
  return key;
}

MemoryKeyOptions all_key_options(const py::kwargs& given, const char* call) {
  Options options(given, call);
  MemoryKeyOptions key = key_options(options);
  if (const auto attach = options.take("attach"); attach && !attach->is_none()) {
    if (!py::isinstance<PublicationObject>(*attach))
      throw py::type_error("attach: a Publication is needed");
    key.attach = attach->cast<const PublicationObject&>().address();
  }
  options.done();
  return key;
}

KeyObject pack_key(const RegionObject& region, const py::kwargs& options) {
  const SharedRegion hold = region.open();
  const MemoryKeyOptions wanted = all_key_options(options, "pack_key");
  MemoryKey key = value_without_gil([&] { return MemoryKey::pack(hold->region, wanted); });
  return {std::make_shared<MemoryKey>(std::move(key))};
}

namespace {

std::string hex(std::span<const std::uint8_t> bytes) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

void bind_key_info(py::module_& module) {
  py::class_<MemoryKeyInfo>(module, "KeyInfo", "The contents of a key.")
      .def("__repr__",
           [](const MemoryKeyInfo& self) {
             return "<hbmwire.KeyInfo " + std::string(word_of(self.type)) + " " +
                    std::to_string(self.length_bytes) + " bytes, " +
                    std::string(word_of(self.path)) + ">";
           })
      .def_property_readonly("type", [](const MemoryKeyInfo& self) { return word_of(self.type); })
      .def_readonly("address", &MemoryKeyInfo::address,
                    "The address of its first byte at the exporter.")
      .def_readonly("nbytes", &MemoryKeyInfo::length_bytes, "The length in bytes.")
      .def_property_readonly(
          "access", [](const MemoryKeyInfo& self) { return words_of(self.access); },
          "The rights that it gives.")
      .def_property_readonly(
          "path", [](const MemoryKeyInfo& self) { return word_of(self.path); },
          "How the exporter's NICs reach the memory; 'staged': none does.")
      .def_readonly("incarnation", &MemoryKeyInfo::incarnation,
                    "Tells the exporting process from an earlier one.")
      .def_property_readonly(
          "expires",
          [](const MemoryKeyInfo& self) -> std::optional<double> {
            if (!self.expires) return std::nullopt;
            return std::chrono::duration<double>(self.expires->time_since_epoch()).count();
          },
          "When it expires, as time.time() of the exporter; None: never.")
      .def_property_readonly(
          "nics",
          [](const MemoryKeyInfo& self) {
            std::vector<std::pair<std::string, std::uint32_t>> all;
            for (const MemoryKeyNic& nic : self.nics)
              all.emplace_back(hex(nic.gid), nic.remote_key);
            return all;
          },
          "For each NIC the GID in hexadecimal and the rkey.");
}

}  // namespace

void bind_keys(py::module_& module) {
  bind_key_info(module);
  py::class_<KeyObject>(module, "MemoryKey",
                        R"(A key to a Region, of Region.pack_key(): bytes(key) go to the peer.

While it lives, whoever has its bytes may do what it allows; everyone who reads them has the key.
Keep this object as long as the peer uses the key: bytes(region.pack_key(...)) alone drops it.)")
      .def("__bytes__", [](KeyObject& self) { return to_bytes(self.open()->bytes()); })
      .def("__enter__", [](const py::object& self) { return self; })
      .def("__exit__", [](KeyObject& self, const py::args&) { self.key.reset(); })
      .def("__repr__",
           [](const KeyObject& self) {
             if (!self.key) return std::string("<hbmwire.MemoryKey closed>");
             return "<hbmwire.MemoryKey to " + std::to_string(self.key->info().length_bytes) +
                    " bytes" + (self.key->valid() ? ">" : ", no longer valid>");
           })
      .def_property_readonly(
          "info", [](KeyObject& self) { return self.open()->info(); }, "Its contents: a KeyInfo.")
      .def_property_readonly(
          "revocable", [](KeyObject& self) { return self.open()->revocable(); },
          "Whether revoke() can take it back.")
      .def_property_readonly(
          "valid", [](KeyObject& self) { return self.key && self.key->valid(); },
          "False when it was revoked or closed, or has expired.")
      .def(
          "revoke",
          [](KeyObject& self) {
            const auto key = self.open();
            value_without_gil([&] { return key->revoke(); });
          },
          "Takes it back: when this returns, no NIC accepts it. Raises NotSupported unless it is "
          "revocable.")
      .def(
          "close", [](KeyObject& self) { self.key.reset(); },
          "Lets the key go, and revokes it if it is revocable.");
  py::class_<RemoteKey>(
      module, "RemoteKey",
      "A key of a peer, for Endpoint.remote(). RemoteKey(data) reads the bytes of "
      "a MemoryKey, which may come from anywhere; raises ProtocolError.")
      .def(py::init([](const py::object& key) {
             return value(RemoteKey::unpack(bytes_of(key, "key")));
           }),
           py::arg("key"))
      .def("__repr__",
           [](const RemoteKey& self) {
             return "<hbmwire.RemoteKey to " + std::to_string(self.info().length_bytes) + " bytes>";
           })
      .def_property_readonly(
          "info", [](const RemoteKey& self) { return self.info(); }, "Its contents: a KeyInfo.");
}

}  // namespace hbmwire::python

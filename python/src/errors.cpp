// SPDX-License-Identifier: MIT
#include "errors.hpp"

#include <string>

#include "words.hpp"

namespace hbmwire::python {

py::object exception_of(const Error& error) {
  const py::object from_fields = py::module_::import("hbmwire.errors").attr("from_fields");
  return from_fields(word_of(error.code), word_of(error.stage), to_string(error.hint),
                     hint_text(error.hint), printable(error.subject), error.call,
                     number_text(error), printable(describe(error)));
}

void raise(const py::object& exception) {
  PyErr_SetObject(py::type::handle_of(exception).ptr(), exception.ptr());
  throw py::error_already_set();
}

void raise(const Error& error) { raise(exception_of(error)); }

void refuse_text(const std::string& why) {
  raise(py::module_::import("hbmwire.errors").attr("make")("invalid_argument", why));
}

py::str printable(std::string_view text) {
  auto* const decoded =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
  if (decoded == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(decoded);
}

void refuse(const char* why, std::string_view subject) {
  raise(make_error(Errc::invalid_argument, Stage::configure, why, subject));
}

}  // namespace hbmwire::python

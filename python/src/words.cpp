// SPDX-License-Identifier: MIT
#include "words.hpp"

#include <string>

namespace hbmwire::python {

std::string_view text_of(py::handle word, std::string_view kind) {
  if (!PyUnicode_Check(word.ptr())) {
    throw py::type_error(std::string(kind) + ": a string is needed, not " +
                         std::string(py::str(py::type::handle_of(word).attr("__name__"))));
  }
  Py_ssize_t length = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(word.ptr(), &length);
  if (text == nullptr) throw py::error_already_set();
  return {text, static_cast<std::size_t>(length)};
}

void refuse_word(std::string_view word, std::string_view kind, const py::list& words) {
  std::string text = "there is no " + std::string(kind) + " " +
                     std::string(py::repr(py::str(word))) + "; there are";
  for (const py::handle one : words) text += " " + std::string(py::repr(one));
  throw py::value_error(text);
}

py::frozenset words_of(Access access) {
  py::set words;
  for (const auto& [right, word] : Words<Access>::kAll) {
    if (has(access, right)) words.add(py::str(word));
  }
  py::frozenset all(words);
  return all;
}

}  // namespace hbmwire::python

// SPDX-License-Identifier: MIT
#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <cstddef>
#include <exception>
#include <string>

/// Methods that Python calls without pybind11's dispatcher. The dispatcher makes a tuple and a
/// dictionary for each call's arguments, which takes about 0.3 us. For methods that programs call
/// once for each transfer.
namespace hbmwire::python {

namespace py = pybind11;

/// The arguments of a call, as METH_FASTCALL gives them.
struct Given {
  PyObject* const* values;
  std::size_t positional;
  PyObject* names;  // names of the arguments after the positional ones; null: there are none
};

/// The parameters of a method. The first `positional` may be given by position; the first `needed`
/// must be given.
template <std::size_t kCount>
class Parameters {
 public:
  Parameters(const char* method, std::size_t positional, std::size_t needed,
             const std::array<const char*, kCount>& names)
      : method_(method), positional_(positional), needed_(needed) {
    for (std::size_t i = 0; i < kCount; ++i) names_[i] = PyUnicode_InternFromString(names[i]);
  }

  /// One argument for each parameter; null if it was not given. Raises TypeError.
  [[nodiscard]] std::array<py::handle, kCount> match(const Given& given) const {
    std::array<py::handle, kCount> all{};
    if (given.positional > positional_) {
      refuse("takes at most " + std::to_string(positional_) + " arguments by position, not " +
             std::to_string(given.positional));
    }
    for (std::size_t i = 0; i < given.positional; ++i) all[i] = given.values[i];
    const auto named =
        given.names == nullptr ? 0 : static_cast<std::size_t>(PyTuple_GET_SIZE(given.names));
    for (std::size_t i = 0; i < named; ++i) {
      PyObject* const name = PyTuple_GET_ITEM(given.names, static_cast<Py_ssize_t>(i));
      const std::size_t at = find(name);
      if (all[at]) refuse("has two values for " + std::string(py::repr(name)));
      all[at] = given.values[given.positional + i];
    }
    for (std::size_t i = 0; i < needed_; ++i) {
      if (!all[i]) refuse("needs an argument " + std::string(py::repr(names_[i])));
    }
    return all;
  }

 private:
  [[nodiscard]] std::size_t find(PyObject* name) const {
    // First by pointer: names in a program's text are interned.
    for (std::size_t at = 0; at < kCount; ++at) {
      if (names_[at] == name) return at;
    }
    for (std::size_t at = 0; at < kCount; ++at) {
      if (PyUnicode_Compare(names_[at], name) == 0) return at;
    }
    refuse("has no argument " + std::string(py::repr(name)));
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw py::type_error(std::string(method_) + "() " + why);
  }

  const char* method_;
  std::size_t positional_;
  std::size_t needed_;
  std::array<PyObject*, kCount> names_{};  // references that are never released
};

/// Calls `kMethod(self, given)` in the form that CPython expects.
template <py::object (*kMethod)(py::handle, const Given&)>
PyObject* call_directly(PyObject* self, PyObject* const* values, Py_ssize_t positional,
                        PyObject* names) noexcept {
  try {
    return kMethod(self, {values, static_cast<std::size_t>(positional), names}).release().ptr();
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const py::builtin_exception& error) {
    error.set_error();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

/// Adds the method to a class. The docstring begins with the signature as CPython writes it:
/// "name($self, a, *, b=None)\n--\n\n".
template <py::object (*kMethod)(py::handle, const Given&)>
void add_direct_method(py::handle type, const char* name, const char* doc) {
  // A cast through a function type without arguments is the only one that GCC does not warn about.
  static PyMethodDef method{
      name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&call_directly<kMethod>)),
      METH_FASTCALL | METH_KEYWORDS, doc};
  const auto function = py::reinterpret_steal<py::object>(
      PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(type.ptr()), &method));
  if (!function) throw py::error_already_set();
  py::setattr(type, name, function);
}

}  // namespace hbmwire::python

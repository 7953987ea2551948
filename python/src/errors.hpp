// SPDX-License-Identifier: MIT
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <string_view>
#include <utility>

#include "hbmwire/error.hpp"

#include "without_gil.hpp"

/// Turns errors of the library into exceptions of hbmwire.errors.
namespace hbmwire::python {

namespace py = pybind11;

/// The exception for an error: an instance of hbmwire.Error.
[[nodiscard]] py::object exception_of(const Error& error);

/// Raises the exception for `error`. Needs the GIL.
[[noreturn]] void raise(const Error& error);

/// Raises an exception that was made before.
[[noreturn]] void raise(const py::object& exception);

/// Raises Errc::invalid_argument of Stage::configure. `why` is a static string.
[[noreturn]] void refuse(const char* why, std::string_view subject = {});

/// refuse() with a sentence that is made at run time.
[[noreturn]] void refuse_text(const std::string& why);

/// Text of the library, the system or a peer as a str. It may be cut within a character.
[[nodiscard]] py::str printable(std::string_view text);

/// The value of a result, or its error as an exception.
template <class T>
T value(Result<T> result) {
  if (!result) raise(result.error());
  return std::move(*result);
}

inline void value(const Result<void>& result) {
  if (!result) raise(result.error());
}

/// value() of the result of `call()`, during which other threads of Python run.
template <class Call>
auto value_without_gil(const Call& call) {
  auto result = [&] {
    const WithoutGil released;
    return call();
  }();
  return value(std::move(result));
}

}  // namespace hbmwire::python

// SPDX-License-Identifier: MIT
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hbmwire/hbmwire.hpp"
#include "hbmwire/memory_key.hpp"

/// Converts arguments of Python programs to the library's types. Each function raises TypeError or
/// ValueError, with a sentence, for an unusable argument.
namespace hbmwire::python {

namespace py = pybind11;

/// Seconds as a duration; None: nanoseconds::max(), which means for ever.
[[nodiscard]] std::chrono::nanoseconds duration_of(py::handle seconds, const char* name);

/// This many seconds from now on; None: never.
[[nodiscard]] Deadline deadline_of(py::handle seconds);

/// A TypeError "NAME: NEEDED, not TYPE".
[[nodiscard]] py::type_error wrong_type(py::handle given, const char* name, const char* needed);

/// An iterator over an argument that must have several items.
[[nodiscard]] py::iterator items_of(py::handle several, const char* name, const char* needed);

/// An argument as pybind11 casts it.
template <class Value>
[[nodiscard]] Value cast_of(py::handle given, const char* name, const char* needed) {
  try {
    return given.cast<Value>();
  } catch (const py::cast_error&) {
    throw wrong_type(given, name, needed);
  }
}

/// A number of bytes or an offset. Raises ValueError, TypeError.
[[nodiscard]] std::uint64_t number_of(py::handle number, const char* name,
                                      std::uint64_t most = ~std::uint64_t{0});

/// A PCI address, or an index as a string or a number.
[[nodiscard]] std::string device_of(py::handle device);

/// Copies bytes-like objects. Raises TypeError.
[[nodiscard]] std::vector<std::byte> bytes_of(py::handle data, const char* name);

/// A bytes object with a copy.
[[nodiscard]] py::bytes to_bytes(std::span<const std::byte> bytes);

/// The rights that one word, or several, name.
[[nodiscard]] Access access_of(py::handle words);

/// One string, or several.
[[nodiscard]] std::vector<std::string> strings_of(py::handle strings);

/// The policy of the arguments `require` and `allow`.
[[nodiscard]] PathPolicy policy_of(py::handle require, py::handle allow);

/// The keyword arguments of a call. Each can be taken once.
class Options {
 public:
  Options(const py::kwargs& given, const char* call) : left_(given.attr("copy")()), call_(call) {}

  /// The value of `name`; nothing if it was not given.
  [[nodiscard]] std::optional<py::object> take(const char* name);

  /// Assigns the value to `to`, if it was given.
  void take(const char* name, bool& to);
  void take(const char* name, std::uint32_t& to);
  void take(const char* name, std::uint64_t& to);
  void take(const char* name, int& to);
  void take(const char* name, std::string& to);
  void take(const char* name, std::chrono::nanoseconds& to);
  void take(const char* name, std::vector<std::byte>& to);

  /// Assigns the value to `to`, if it was given; Python's None assigns no value.
  template <class Number>
  void take(const char* name, std::optional<Number>& to) {
    const auto value = take(name);
    if (!value) return;
    to = std::nullopt;
    if (!value->is_none())
      to = static_cast<Number>(number_of(*value, name, std::numeric_limits<Number>::max()));
  }

  /// Raises TypeError for arguments that were not taken.
  void done() const;

 private:
  py::dict left_;
  const char* call_;
};

[[nodiscard]] EndpointOptions endpoint_options(Options& options);
[[nodiscard]] ListenerOptions listener_options(Options& options);
[[nodiscard]] WorkerOptions worker_options(Options& options, const WorkerOptions& defaults = {});
[[nodiscard]] MemoryOptions memory_options(Options& options);
[[nodiscard]] MemoryKeyOptions key_options(Options& options);

}  // namespace hbmwire::python

// SPDX-License-Identifier: MIT
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <span>
#include <utility>

namespace hbmwire::python {

/// A view of the buffer protocol: while it exists, the object's memory stays as it is. Made and
/// dropped with the GIL.
class HeldBuffer {
 public:
  /// `flags`: PyBUF_*. Raises what the object raises (TypeError, BufferError).
  HeldBuffer(pybind11::handle object, int flags) {
    if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) throw pybind11::error_already_set();
  }

  HeldBuffer(HeldBuffer&& other) noexcept : view_(std::exchange(other.view_, Py_buffer{})) {}

  HeldBuffer(const HeldBuffer&) = delete;
  HeldBuffer& operator=(const HeldBuffer&) = delete;
  HeldBuffer& operator=(HeldBuffer&&) = delete;

  ~HeldBuffer() { PyBuffer_Release(&view_); }

  [[nodiscard]] const Py_buffer& view() const noexcept { return view_; }

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return writable_bytes(); }

  /// bytes() of a view that was asked for with PyBUF_WRITABLE.
  [[nodiscard]] std::span<std::byte> writable_bytes() const noexcept {
    return {static_cast<std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }

 private:
  Py_buffer view_{};
};

}  // namespace hbmwire::python

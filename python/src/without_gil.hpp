// SPDX-License-Identifier: MIT
#pragma once

#include <cxxabi.h>
#include <pybind11/pybind11.h>
#include <unistd.h>

namespace hbmwire::python {

/// Lets other threads of Python run while this lives. Code meanwhile must not touch Python objects.
///
/// A daemon thread may want the GIL back after the interpreter has ended. Python before 3.14 ends
/// such a thread by pthread_exit(3), whose unwinding cannot pass functions that are noexcept: the
/// whole process would be aborted. As with 3.14, the thread sleeps for good instead.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}

  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

  ~WithoutGil() {
    try {
      PyEval_RestoreThread(state_);
    } catch (abi::__forced_unwind&) {
      for (;;) ::pause();
    }
  }

 private:
  PyThreadState* state_;
};

}  // namespace hbmwire::python

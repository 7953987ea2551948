// SPDX-License-Identifier: MIT
#pragma once

#include <pybind11/pybind11.h>

/// The parts of the module hbmwire._core. Each adds its classes and functions. A class must be
/// added before any signature names it.
namespace hbmwire::python {

void bind_info(pybind11::module_& module);
void bind_counters(pybind11::module_& module);
void bind_memory(pybind11::module_& module);
void bind_keys(pybind11::module_& module);
void bind_blocks(pybind11::module_& module);
void bind_attach(pybind11::module_& module);
void bind_transfer(pybind11::module_& module);
void bind_message(pybind11::module_& module);
void bind_endpoint(pybind11::module_& module);
void bind_listener(pybind11::module_& module);
void bind_group(pybind11::module_& module);
void bind_worker(pybind11::module_& module);
void bind_context(pybind11::module_& module);
void bind_foreign_memory(pybind11::module_& module);

}  // namespace hbmwire::python

// SPDX-License-Identifier: MIT
#include <pybind11/pybind11.h>

#include "parts.hpp"

namespace hbmwire::python {

PYBIND11_MODULE(_core, module) {
  module.doc() = "The compiled part of hbmwire.";
  bind_info(module);
  bind_counters(module);
  bind_attach(module);
  bind_memory(module);
  bind_blocks(module);
  bind_keys(module);
  bind_transfer(module);
  bind_message(module);
  bind_endpoint(module);
  bind_listener(module);
  bind_worker(module);
  bind_context(module);
  bind_group(module);
  bind_foreign_memory(module);
  // Transfers under way must end before the interpreter does, since their memory goes with it.
  pybind11::module_::import("atexit").attr("register")(module.attr("_close_all"));
}

}  // namespace hbmwire::python

// SPDX-License-Identifier: MIT
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>

namespace hbmwire::python {

/// Defines `_buffer` and `_dlpack`, by which hbmwire/_memory.py finds the memory of other
/// libraries' objects, and the two types that hold such memory.
void bind_foreign_memory(pybind11::module_& module);

/// Makes a capsule by which other libraries take memory: `nbytes` of uint8 in one dimension, on the
/// device of DLPack's `device_type` (1 CPU, 2 CUDA, 10 ROCm) and index (0 for the CPU). `versioned`
/// is for consumers that pass max_version=(1, 0) or above.
///
/// `owner` lives until the consumer calls the deleter, or until an unused capsule goes. Any thread
/// may call the deleter, with or without the GIL. A call without the GIL while the interpreter ends
/// leaks the reference. Throws BufferError for read-only memory in an unversioned capsule, which
/// cannot tell that. Source: dlpack.h of DLPack 1.0, and its Python specification.
pybind11::object export_dlpack(pybind11::object owner, std::uint64_t address, std::uint64_t nbytes,
                               std::int32_t device_type, std::int32_t device_id, bool versioned,
                               bool read_only);

}  // namespace hbmwire::python

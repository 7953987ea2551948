// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <optional>

#include "hbmwire/attach.hpp"
#include "hbmwire/memory_key.hpp"

#include "memory.hpp"

namespace hbmwire::python {

/// hbmwire.MemoryKey. The library's key keeps its region.
struct KeyObject {
  std::shared_ptr<MemoryKey> key;  // null: closed

  /// Raises InvalidArgument if it is closed. A call without the GIL must hold the result, since
  /// another thread may close the key.
  [[nodiscard]] std::shared_ptr<MemoryKey> open() const;
};

[[nodiscard]] KeyObject pack_key(const RegionObject& region, const py::kwargs& options);

/// The options of a key, including `attach`. Raises TypeError for any other argument.
[[nodiscard]] MemoryKeyOptions all_key_options(const py::kwargs& given, const char* call);

}  // namespace hbmwire::python

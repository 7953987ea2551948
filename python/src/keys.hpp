// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <optional>

#include "hbmwire/attach.hpp"
#include "hbmwire/memory_key.hpp"

#include "memory.hpp"

namespace hbmwire::python {

/// hbmwire.MemoryKey.
struct KeyObject {
  std::optional<MemoryKey> key;  // goes before the region that it opens
  SharedRegion hold;

  KeyObject(MemoryKey key_of, SharedRegion hold_of)
      : key(std::move(key_of)), hold(std::move(hold_of)) {}

  KeyObject(KeyObject&&) = default;
  KeyObject(const KeyObject&) = delete;
  KeyObject& operator=(const KeyObject&) = delete;
  KeyObject& operator=(KeyObject&&) = delete;

  ~KeyObject() { key.reset(); }

  /// Raises InvalidArgument if it is closed.
  [[nodiscard]] MemoryKey& open();
};

[[nodiscard]] std::unique_ptr<KeyObject> pack_key(const RegionObject& region,
                                                  const py::kwargs& options);

/// The options of a key, with `attach`. Raises TypeError for what is none.
[[nodiscard]] MemoryKeyOptions all_key_options(const py::kwargs& given, const char* call);

}  // namespace hbmwire::python

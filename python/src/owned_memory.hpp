// SPDX-License-Identifier: MIT
#pragma once

#include <pybind11/pybind11.h>

#include "hbmwire/memory.hpp"

namespace hbmwire::python {

/// Memory of a Python object, kept for as long as the library has it registered.
///
/// The library may keep a region longer than the region's last handle, if a peer may still reach
/// it: a dropped endpoint says goodbye in the background, and only then is memory that its listener
/// advertised released. Therefore the allocation keeps the owner, since every registration has the
/// allocation.
class OwnedMemory {
 public:
  /// Needs the GIL.
  explicit OwnedMemory(pybind11::object owner);

  [[nodiscard]] pybind11::handle owner() const noexcept;

  /// Wraps memory that the program lent, so that it keeps the owner from now on. Needs no GIL.
  [[nodiscard]] Allocation keep_with(const Allocation& borrowed) const;

 private:
  struct Held;
  std::shared_ptr<Held> held_;
};

/// Drops references to owners whose memory the library has released since the last call. The
/// library releases memory in any thread, and with its own locks held, where no Python code may
/// run. Needs the GIL.
void drop_owners() noexcept;

/// Calls drop_owners() when it is destroyed. Declare it before a member that may be the last user
/// of memory.
struct DropsOwners {
  DropsOwners() = default;
  DropsOwners(const DropsOwners&) = delete;
  DropsOwners& operator=(const DropsOwners&) = delete;

  ~DropsOwners() { drop_owners(); }
};

}  // namespace hbmwire::python

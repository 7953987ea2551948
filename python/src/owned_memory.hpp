// SPDX-License-Identifier: MIT
#pragma once

#include <pybind11/pybind11.h>

#include "hbmwire/memory.hpp"

namespace hbmwire::python {

/// Memory of an object of Python's, as long as the library has it registered.
///
/// The library keeps a region longer than its last handle where a peer may still reach it: an
/// endpoint that was dropped says goodbye in the background, and with it goes what its listener
/// advertised. So it is the allocation that keeps the owner, which every registration has.
class OwnedMemory {
 public:
  /// With the GIL.
  explicit OwnedMemory(pybind11::object owner);

  [[nodiscard]] pybind11::handle owner() const noexcept;

  /// Memory that the program lent, and that keeps the owner from now on. Needs no GIL.
  [[nodiscard]] Allocation keep_with(const Allocation& borrowed) const;

 private:
  struct Held;
  std::shared_ptr<Held> held_;
};

/// Lets go the owners whose memory the library has let go since the last call: it does so in any
/// thread and with locks of its own, where no code of Python's may run. With the GIL.
void drop_owners() noexcept;

/// Calls drop_owners() when it goes: a member in front of one that may be a last user of memory.
struct DropsOwners {
  DropsOwners() = default;
  DropsOwners(const DropsOwners&) = delete;
  DropsOwners& operator=(const DropsOwners&) = delete;

  ~DropsOwners() { drop_owners(); }
};

}  // namespace hbmwire::python

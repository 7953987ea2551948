// SPDX-License-Identifier: MIT
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <typeinfo>
#include <utility>

#include "hbmwire/buffer.hpp"
#include "hbmwire/hbmwire.hpp"

#include "arguments.hpp"
#include "owned_memory.hpp"

/// Regions of this end and of the peer, and their slices.
namespace hbmwire::python {

namespace py = pybind11;

/// Registered memory and the object that owns it. Slices, tables and transfers share this. Keys,
/// and names that a listener advertises, keep the library's region, and with it the owner. The
/// registration ends with the last of them. Made, shared and dropped with the GIL.
struct RegionHold {
  /// For memory that `owned` keeps with the region.
  RegionHold(Context context_of, const OwnedMemory& owned, Region region_of)
      : context(std::move(context_of)), owner(owned.owner()), region(std::move(region_of)) {}

  /// For memory that the library keeps by itself.
  RegionHold(Context context_of, py::object made_of, Region region_of)
      : context(std::move(context_of)), kept(std::move(made_of)), region(std::move(region_of)) {}

  Context context;
  py::object kept;
  py::handle owner = kept;
  DropsOwners drops;  // destroyed after the region
  Region region;
  bool read_only = false;               // the owner is read-only, so write() refuses it
  mutable std::optional<Buffer> spare;  // for read() and write(); taken out while one of them uses
                                        // it
};

using SharedRegion = std::shared_ptr<const RegionHold>;

/// hbmwire.Region.
struct RegionObject {
  SharedRegion hold;  // null: closed
  int exports = 0;    // open views of the buffer protocol

  /// Raises InvalidArgument if it is closed.
  [[nodiscard]] SharedRegion open() const;
};

/// hbmwire.Slice.
struct SliceObject {
  SharedRegion hold;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;

  [[nodiscard]] Slice slice() const noexcept { return {&hold->region, offset, length}; }
};

/// The peer's memory, as operations keep it.
using SharedRemote = std::shared_ptr<const RemoteRegion>;

/// hbmwire.RemoteRegion.
struct RemoteObject {
  SharedRemote hold;
};

/// hbmwire.RemoteSlice.
struct RemoteSliceObject {
  SharedRemote hold;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;

  [[nodiscard]] RemoteSlice slice() const noexcept { return {hold.get(), offset, length}; }
};

/// The C++ object in a Python object of this class; null if it is of another class. Looks the class
/// up only once; pybind11's own casts look it up by its name each time.
template <class Object>
[[nodiscard]] Object* object_in(py::handle object) {
  static const py::detail::type_info* const type = py::detail::get_type_info(typeid(Object));
  py::detail::type_caster_generic caster(type);
  return caster.load(object, false) ? static_cast<Object*>(caster.value) : nullptr;
}

/// The object that object_in() finds. Raises TypeError if there is none; `needed` names the class.
template <class Object>
[[nodiscard]] Object& object_of(py::handle object, const char* name, const char* needed) {
  if (auto* const found = object_in<Object>(object)) return *found;
  throw wrong_type(object, name, (std::string(needed) + " is needed").c_str());
}

/// The slice for a Region or a Slice; for a RemoteRegion or a RemoteSlice. Raises TypeError.
[[nodiscard]] SliceObject local_of(py::handle memory);
[[nodiscard]] RemoteSliceObject remote_of(py::handle memory);

/// Whether local_of() accepts it.
[[nodiscard]] bool is_local(py::handle memory);

}  // namespace hbmwire::python

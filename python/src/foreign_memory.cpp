// SPDX-License-Identifier: MIT
#include "foreign_memory.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "held_buffer.hpp"

namespace py = pybind11;

namespace hbmwire::python {

namespace {

// --- DLPack 1.0, dlpack.h. Consumers and producers share this layout, but no library.

struct DlVersion {
  std::uint32_t major = 1;
  std::uint32_t minor = 0;
};

struct DlDevice {
  std::int32_t type = 0;
  std::int32_t id = 0;
};

struct DlType {
  std::uint8_t code = 1;  // kDLUInt
  std::uint8_t bits = 8;
  std::uint16_t lanes = 1;
};

struct DlTensor {
  void* data = nullptr;
  DlDevice device;
  std::int32_t ndim = 0;
  DlType type;
  std::int64_t* shape = nullptr;
  std::int64_t* strides = nullptr;  // in elements; null: C order
  std::uint64_t byte_offset = 0;
};

struct DlManaged {
  static constexpr const char* kName = "dltensor";
  static constexpr const char* kUsedName = "used_dltensor";

  DlTensor tensor;
  void* context = nullptr;
  void (*deleter)(DlManaged*) = nullptr;
};

struct DlManagedVersioned {
  static constexpr const char* kName = "dltensor_versioned";
  static constexpr const char* kUsedName = "used_dltensor_versioned";

  DlVersion version;
  void* context = nullptr;
  void (*deleter)(DlManagedVersioned*) = nullptr;
  std::uint64_t flags = 0;
  DlTensor tensor;
};

static_assert(sizeof(DlTensor) == 48 && sizeof(DlManaged) == 64 &&
              sizeof(DlManagedVersioned) == 80);

constexpr std::uint32_t kDlMajor = 1;
constexpr std::uint64_t kDlReadOnly = 1;
constexpr std::uint64_t kDlIsCopied = 2;

// --- buffers (PEP 3118)

std::string type_name(const py::handle& object) {
  return py::cast<std::string>(py::type::handle_of(object).attr("__name__"));
}

/// Whether a format of the struct module holds pointers to Python objects. Names of fields stand
/// between colons.
bool has_objects(std::string_view format) {
  bool in_name = false;
  for (const char c : format) {
    if (c == ':') in_name = !in_name;
    if (c == 'O' && !in_name) return true;
  }
  return false;
}

/// A view of the object. Raises the exception that the object raises when it is asked with its
/// format.
std::unique_ptr<HeldBuffer> view_of(const py::handle& object) {
  try {
    return std::make_unique<HeldBuffer>(object, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT);
  } catch (const py::error_already_set& refused) {
    // Some objects have elements that no format describes.
    try {
      return std::make_unique<HeldBuffer>(object, PyBUF_C_CONTIGUOUS);
    } catch (const py::error_already_set&) {
      throw refused;
    }
  }
}

py::tuple buffer(const py::object& object) {
  if (PyObject_CheckBuffer(object.ptr()) == 0)
    throw py::type_error("a '" + type_name(object) + "' is not bytes-like");
  auto held = view_of(object);
  const Py_buffer& view = held->view();
  if (view.format != nullptr && has_objects(view.format)) {
    throw py::buffer_error("a '" + type_name(object) +
                           "' holds references to Python objects, which are good in this process "
                           "alone");
  }
  return py::make_tuple(std::bit_cast<std::uintptr_t>(view.buf), view.len, view.readonly != 0,
                        std::move(held));
}

// --- DLPack capsules of other libraries

/// A tensor that was taken out of its capsule. From then on this object must call the deleter,
/// once.
class HeldTensor {
 public:
  template <class Managed>
  explicit HeldTensor(Managed* managed)
      : managed_(managed, [](void* taken) {
          auto* const tensor = static_cast<Managed*>(taken);
          if (tensor->deleter != nullptr) tensor->deleter(tensor);
        }) {}

 private:
  std::unique_ptr<void, void (*)(void*)> managed_;
};

/// The number of bytes, without gaps; nothing if the shape is not one of memory.
std::optional<std::uint64_t> size_of(const DlTensor& tensor) {
  if (tensor.ndim < 0) return std::nullopt;
  std::uint64_t bits = std::uint64_t{tensor.type.bits} * tensor.type.lanes;
  if (bits == 0) return std::nullopt;
  for (const std::int64_t length : std::span(tensor.shape, static_cast<std::size_t>(tensor.ndim))) {
    if (length < 0) return std::nullopt;
    if (__builtin_mul_overflow(bits, static_cast<std::uint64_t>(length), &bits))
      return std::nullopt;
  }
  return bits / 8 + (bits % 8 != 0 ? 1 : 0);
}

/// Whether the elements lie in C order, without gaps.
bool is_contiguous(const DlTensor& tensor) {
  if (tensor.strides == nullptr || tensor.ndim == 0) return true;
  const std::span shape(tensor.shape, static_cast<std::size_t>(tensor.ndim));
  if (std::ranges::find(shape, 0) != shape.end()) return true;  // there are no elements
  std::int64_t expected = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) continue;
    if (tensor.strides[i] != expected) return false;
    expected *= shape[i];  // cannot overflow: size_of() has multiplied them
  }
  return true;
}

template <class Managed>
py::tuple take(const py::object& capsule) {
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), Managed::kName));
  if (managed == nullptr) throw py::error_already_set();
  // If the capsule is refused, its own destructor calls the deleter.
  bool read_only = false;
  if constexpr (std::is_same_v<Managed, DlManagedVersioned>) {
    if (managed->version.major != kDlMajor) {
      throw py::buffer_error("the capsule is of DLPack " + std::to_string(managed->version.major) +
                             "." + std::to_string(managed->version.minor) +
                             ", which has another layout than 1.0");
    }
    if ((managed->flags & kDlIsCopied) != 0)
      throw py::buffer_error("the producer gives a copy of its memory by DLPack");
    read_only = (managed->flags & kDlReadOnly) != 0;
  }
  const DlTensor& tensor = managed->tensor;
  const auto nbytes = size_of(tensor);
  if (!nbytes) throw py::buffer_error("the DLPack tensor has an impossible shape");
  const auto address = std::bit_cast<std::uintptr_t>(tensor.data) + tensor.byte_offset;
  py::tuple described = py::make_tuple(address, *nbytes, tensor.device.type, tensor.device.id,
                                       read_only, is_contiguous(tensor), py::none());
  auto held = std::make_unique<HeldTensor>(managed);
  if (PyCapsule_SetName(capsule.ptr(), Managed::kUsedName) != 0) throw py::error_already_set();
  described[6] = py::cast(std::move(held));  // in place of None
  return described;
}

py::tuple dlpack(const py::object& capsule) {
  if (PyCapsule_IsValid(capsule.ptr(), DlManagedVersioned::kName) != 0)
    return take<DlManagedVersioned>(capsule);
  if (PyCapsule_IsValid(capsule.ptr(), DlManaged::kName) != 0) return take<DlManaged>(capsule);
  if (!py::isinstance<py::capsule>(capsule))
    throw py::type_error("a '" + type_name(capsule) + "' is not a DLPack capsule");
  throw py::buffer_error("the capsule is not DLPack's, or has been used");
}

// --- our DLPack capsules

bool interpreter_ends() {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

void drop_reference(PyObject* object) noexcept {
  // After the interpreter has ended there is nothing to release. While it ends, a thread without
  // the GIL would never get it, since the thread that ends the interpreter has it.
  if (Py_IsInitialized() == 0) return;
  if (PyGILState_Check() == 0 && interpreter_ends()) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  {
    const py::error_scope pending;  // the caller may be raising an exception
    Py_DECREF(object);
  }
  PyGILState_Release(state);
}

template <class Managed>
struct Export {
  Managed managed;
  std::int64_t shape = 0;
  std::int64_t stride = 1;
  py::object owner;
};

template <class Managed>
void delete_export(Managed* managed) noexcept {
  const std::unique_ptr<Export<Managed>> exported(static_cast<Export<Managed>*>(managed->context));
  drop_reference(exported->owner.release().ptr());
}

/// A capsule's destructor. If the capsule was consumed, the consumer calls the deleter.
template <class Managed>
void delete_unused(PyObject* capsule) noexcept {
  if (PyCapsule_IsValid(capsule, Managed::kName) == 0) return;
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, Managed::kName));
  managed->deleter(managed);
}

template <class Managed>
py::object export_as(py::object owner, const DlTensor& tensor, bool read_only) {
  auto exported = std::make_unique<Export<Managed>>();
  exported->owner = std::move(owner);
  Managed& managed = exported->managed;
  managed.tensor = tensor;
  exported->shape = tensor.shape[0];
  managed.tensor.shape = &exported->shape;
  managed.tensor.strides = &exported->stride;
  managed.context = exported.get();
  managed.deleter = &delete_export<Managed>;
  if constexpr (std::is_same_v<Managed, DlManagedVersioned>)
    managed.flags = read_only ? kDlReadOnly : 0;
  PyObject* const capsule = PyCapsule_New(&managed, Managed::kName, &delete_unused<Managed>);
  if (capsule == nullptr) throw py::error_already_set();
  exported.release();  // delete_export() takes it back
  return py::reinterpret_steal<py::object>(capsule);
}

}  // namespace

py::object export_dlpack(py::object owner, std::uint64_t address, std::uint64_t nbytes,
                         std::int32_t device_type, std::int32_t device_id, bool versioned,
                         bool read_only) {
  if (nbytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    throw py::buffer_error("DLPack has signed lengths: the memory is too long");
  if (read_only && !versioned) {
    throw py::buffer_error(
        "the memory is read-only, which DLPack says from version 1.0 on: pass max_version=(1, 0)");
  }
  auto shape = static_cast<std::int64_t>(nbytes);
  DlTensor tensor;
  tensor.data = nbytes == 0 ? nullptr : std::bit_cast<void*>(static_cast<std::uintptr_t>(address));
  tensor.device = {.type = device_type, .id = device_id};
  tensor.ndim = 1;
  tensor.shape = &shape;
  return versioned ? export_as<DlManagedVersioned>(std::move(owner), tensor, read_only)
                   : export_as<DlManaged>(std::move(owner), tensor, read_only);
}

void bind_foreign_memory(py::module_& module) {
  py::class_<HeldBuffer>(module, "_HeldBuffer",
                         "Holds an object's buffer, which stays in place meanwhile.")
      .def_property_readonly(
          "obj",
          [](const HeldBuffer& held) {
            return py::reinterpret_borrow<py::object>(held.view().obj);
          },
          "The object whose memory it is.");
  py::class_<HeldTensor>(module, "_HeldTensor", "Holds a tensor that came by DLPack.");

  module.def("_buffer", &buffer, py::arg("memory"), py::pos_only(),
             "(address, nbytes, read_only, holder) of an object with the buffer protocol, in C "
             "order. Raises TypeError (no such object), BufferError (not in C order, or of "
             "references to objects), and as the object does.");
  module.def("_dlpack", &dlpack, py::arg("capsule"), py::pos_only(),
             "(address, nbytes, device_type, device_id, read_only, contiguous, holder) of the "
             "tensor in a DLPack capsule, which it marks as used. Raises TypeError (no capsule), "
             "BufferError (used, of another version, a copy).");
}

}  // namespace hbmwire::python

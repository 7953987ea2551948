// SPDX-License-Identifier: MIT
#include "memory.hpp"

#include <pybind11/stl.h>

#include <chrono>
#include <optional>
#include <string>

#include "hbmwire/memory_domain.hpp"

#include "arguments.hpp"
#include "blocks.hpp"
#include "errors.hpp"
#include "foreign_memory.hpp"
#include "held_buffer.hpp"
#include "info.hpp"
#include "keys.hpp"
#include "parts.hpp"
#include "words.hpp"

namespace hbmwire::python {

SharedRegion RegionObject::open() const {
  if (!hold) refuse("the region is closed");
  return hold;
}

SliceObject local_of(py::handle memory) {
  if (const auto* const slice = object_in<SliceObject>(memory)) return *slice;
  if (const auto* const region = object_in<RegionObject>(memory)) {
    const SharedRegion hold = region->open();
    return {hold, 0, hold->region.size_bytes()};
  }
  throw py::type_error("a Region or a Slice is needed here, not " +
                       std::string(py::str(py::type::handle_of(memory).attr("__name__"))) +
                       "; Context.register() makes one of memory");
}

RemoteSliceObject remote_of(py::handle memory) {
  if (const auto* const slice = object_in<RemoteSliceObject>(memory)) return *slice;
  if (const auto* const region = object_in<RemoteObject>(memory)) {
    const SharedRemote& hold = region->hold;
    return {hold, 0, hold->length_bytes()};
  }
  throw py::type_error("a RemoteRegion or a RemoteSlice is needed here, not " +
                       std::string(py::str(py::type::handle_of(memory).attr("__name__"))) +
                       "; Endpoint.remote() gives one");
}

bool is_local(py::handle memory) {
  return py::isinstance<SliceObject>(memory) || py::isinstance<RegionObject>(memory);
}

namespace {

/// Offset and length of `part` of memory of `length` bytes. As always in Python, a part beyond the
/// end is cut off.
std::pair<std::uint64_t, std::uint64_t> range_of(const py::slice& part, std::uint64_t length) {
  Py_ssize_t start = 0;
  Py_ssize_t stop = 0;
  Py_ssize_t step = 0;
  if (PySlice_Unpack(part.ptr(), &start, &stop, &step) != 0) throw py::error_already_set();
  if (step != 1) throw py::value_error("memory has only slices of step 1");
  const Py_ssize_t count =
      PySlice_AdjustIndices(static_cast<Py_ssize_t>(length), &start, &stop, step);
  return {static_cast<std::uint64_t>(start), static_cast<std::uint64_t>(count)};
}

py::object index_needs_slice() {
  throw py::type_error("memory is sliced by bytes: region[0:4096]");
}

MemoryType type_of(const RegionHold& hold) {
  return hold.region.allocation().domain().device().type;
}

std::string explain(const RegionHold& hold) {
  std::string text;
  for (const PathTried& tried : hold.region.explain()) {
    if (!text.empty()) text += "; ";
    text += to_string(tried.path);
    if (tried.taken) {
      text += " (taken)";
    } else if (tried.refusal) {
      text += (tried.nic.empty() ? "" : " by " + tried.nic) + ": " + describe(*tried.refusal);
    }
  }
  return text;
}

/// The device as DLPack numbers it. Raises BufferError if DLPack has no number for it.
std::pair<int, int> dlpack_device(const RegionHold& hold) {
  constexpr int kCpu = 1;
  constexpr int kCuda = 2;
  constexpr int kRocm = 10;
  switch (type_of(hold)) {
    case MemoryType::host:
      return {kCpu, 0};
    case MemoryType::cuda:
      return {kCuda, device_index(hold)};
    case MemoryType::rocm:
      return {kRocm, device_index(hold)};
    default:
      throw py::buffer_error("DLPack has no code for " + std::string(word_of(type_of(hold))) +
                             " memory; use Region.address, or read() and write()");
  }
}

py::object dlpack(const RegionObject& object, const py::object& max_version,
                  const py::object& dl_device, const py::object& copy) {
  const SharedRegion hold = object.open();
  const auto [type, id] = dlpack_device(*hold);
  if (!dl_device.is_none() && dl_device.cast<std::pair<int, int>>() != std::pair(type, id))
    throw py::buffer_error("the memory stays on its device: DLPack asks for another one");
  if (!copy.is_none() && copy.cast<bool>())
    throw py::buffer_error("a Region exports its own memory and makes no copy of it");
  const bool versioned =
      !max_version.is_none() && max_version.cast<py::tuple>()[0].cast<int>() >= 1;
  return export_dlpack(py::cast(RegionObject{hold, 0}), hold->region.address(),
                       hold->region.size_bytes(), type, id, versioned, hold->read_only);
}

py::dict cuda_array_interface(const RegionObject& object) {
  const SharedRegion hold = object.open();
  if (type_of(*hold) != MemoryType::cuda)
    throw py::attribute_error("__cuda_array_interface__: the memory is not a CUDA GPU's");
  py::dict all;
  all["shape"] = py::make_tuple(hold->region.size_bytes());
  all["typestr"] = "|u1";
  all["data"] = py::make_tuple(hold->region.address(), hold->read_only);
  all["strides"] = py::none();
  all["version"] = 3;
  return all;
}

// --- the buffer protocol, for host memory

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  auto& object = py::handle(self).cast<RegionObject&>();
  view->obj = nullptr;
  if (!object.hold) {
    PyErr_SetString(PyExc_BufferError, "the region is closed");
    return -1;
  }
  const std::span<std::byte> bytes = object.hold->region.host_bytes();
  if (bytes.data() == nullptr) {
    PyErr_SetString(PyExc_BufferError,
                    "the CPU does not reach this memory by its address; use read() and write()");
    return -1;
  }
  const int filled =
      PyBuffer_FillInfo(view, self, bytes.data(), static_cast<Py_ssize_t>(bytes.size()),
                        object.hold->read_only, flags);
  if (filled == 0) ++object.exports;
  return filled;
}

void release_buffer(PyObject* self, Py_buffer* /*view*/) {
  --py::handle(self).cast<RegionObject&>().exports;
}

void close(RegionObject& object) {
  if (object.exports > 0) {
    throw py::buffer_error("the region's memory is in use by " + std::to_string(object.exports) +
                           " memoryview(s) or arrays; drop them first");
  }
  object.hold.reset();
}

// --- copies by the CPU or the device's engine

constexpr double kCopyTimeout = 30.0;  // seconds, if a program gives no timeout

/// Takes the region's Buffer for one copy, and gives it back. Making one costs more than a small
/// copy.
class Copier {
 public:
  explicit Copier(SharedRegion hold) : hold_(std::move(hold)), buffer_(std::move(hold_->spare)) {
    hold_->spare.reset();
  }

  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  ~Copier() {
    if (buffer_) hold_->spare = std::move(buffer_);
  }

  /// Calls `copy(Buffer&)` while other threads of Python run.
  template <class Copy>
  void run(const Copy& copy) {
    value_without_gil([&]() -> Result<void> {
      if (!buffer_) {
        HBMWIRE_TRY_ASSIGN(auto made, Buffer::create(hold_->region));
        buffer_.emplace(std::move(made));
      }
      auto copied = copy(*buffer_);
      if (!copied) buffer_.reset();
      return copied;
    });
  }

 private:
  SharedRegion hold_;  // another thread may close the region
  std::optional<Buffer> buffer_;
};

/// Raises InvalidArgument if the range leaves the memory.
void check_range(const SliceObject& memory, std::uint64_t offset, std::uint64_t length) {
  if (offset > memory.length || length > memory.length - offset)
    refuse("the range leaves the memory");
}

void write(const SliceObject& to, const py::object& data, std::uint64_t offset,
           const py::object& timeout) {
  if (to.hold->read_only) {
    raise(
        make_error(Errc::permission_denied, Stage::copy, "the object gives its memory read-only"));
  }
  const HeldBuffer from(data, PyBUF_C_CONTIGUOUS);
  check_range(to, offset, from.bytes().size());
  const Deadline deadline = deadline_of(timeout);
  Copier(to.hold).run(
      [&](Buffer& buffer) { return buffer.write(to.offset + offset, from.bytes(), deadline); });
}

void read_range(const SliceObject& from, std::uint64_t offset, std::span<std::byte> to,
                const Deadline& deadline) {
  Copier(from.hold).run(
      [&](Buffer& buffer) { return buffer.read(from.offset + offset, to, deadline); });
}

void read_into(const SliceObject& from, const py::object& data, std::uint64_t offset,
               const py::object& timeout) {
  const HeldBuffer to(data, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE);
  check_range(from, offset, to.bytes().size());
  read_range(from, offset, to.writable_bytes(), deadline_of(timeout));
}

py::bytes read(const SliceObject& from, std::uint64_t offset, std::optional<std::uint64_t> length,
               const Deadline& deadline) {
  check_range(from, offset, length.value_or(0));
  const std::uint64_t count = length.value_or(from.length - offset);
  auto bytes = py::reinterpret_steal<py::bytes>(
      PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(count)));
  if (!bytes) throw py::error_already_set();
  auto* const first = reinterpret_cast<std::byte*>(PyBytes_AS_STRING(bytes.ptr()));
  read_range(from, offset, {first, count}, deadline);
  return bytes;
}

/// Adds read(), write() and read_into() to Region or Slice.
template <class Class>
void bind_copies(Class& memory) {
  memory
      .def(
          "write",
          [](const py::object& self, const py::object& data, const py::object& offset,
             const py::object& timeout) {
            write(local_of(self), data, number_of(offset, "offset"), timeout);
          },
          py::arg("data"), py::arg("offset") = 0, py::kw_only(), py::arg("timeout") = kCopyTimeout,
          "Copies bytes from the host to `offset` of the memory, whatever its type. Raises "
          "InvalidArgument if they leave it, TimedOut after `timeout` seconds.")
      .def(
          "read",
          [](const py::object& self, const py::object& offset, const py::object& length,
             const py::object& timeout) {
            std::optional<std::uint64_t> count;
            if (!length.is_none()) count = number_of(length, "length");
            return read(local_of(self), number_of(offset, "offset"), count, deadline_of(timeout));
          },
          py::arg("offset") = 0, py::arg("length") = py::none(), py::kw_only(),
          py::arg("timeout") = kCopyTimeout,
          "Copies `length` bytes (all that follow, without it) from `offset` to the host. Raises "
          "as write().")
      .def(
          "read_into",
          [](const py::object& self, const py::object& data, const py::object& offset,
             const py::object& timeout) {
            read_into(local_of(self), data, number_of(offset, "offset"), timeout);
          },
          py::arg("data"), py::arg("offset") = 0, py::kw_only(), py::arg("timeout") = kCopyTimeout,
          "read() into a writable buffer, as many bytes as it has.");
}

std::string hex(std::uint64_t number) {
  return std::string(py::str("{:#x}").attr("format")(number).cast<std::string>());
}

std::string show_region(const RegionObject& object) {
  if (!object.hold) return "<hbmwire.Region closed>";
  const Region& region = object.hold->region;
  return "<hbmwire.Region " + std::string(word_of(type_of(*object.hold))) + " " +
         std::to_string(region.size_bytes()) + " bytes at " + hex(region.address()) + ", " +
         std::string(word_of(region.path())) + ">";
}

using RegionClass = py::class_<RegionObject>;

void bind_exports(RegionClass& region) {
  region
      .def(
          "__dlpack__",
          [](const RegionObject& self, const py::object&, const py::object& max_version,
             const py::object& dl_device,
             const py::object& copy) { return dlpack(self, max_version, dl_device, copy); },
          py::arg("stream") = py::none(), py::kw_only(), py::arg("max_version") = py::none(),
          py::arg("dl_device") = py::none(), py::arg("copy") = py::none(),
          "The memory as bytes, for any library that takes DLPack. `stream` is not waited for: a "
          "transfer that is over at level 'visible', or a get or receive that is over, needs "
          "none. Raises BufferError for memory that DLPack has no code for (Gaudi).")
      .def("__dlpack_device__",
           [](const RegionObject& self) { return dlpack_device(*self.open()); })
      .def_property_readonly("__cuda_array_interface__", &cuda_array_interface);
}

void bind_facts(RegionClass& region) {
  region
      .def_property_readonly(
          "address", [](const RegionObject& self) { return self.open()->region.address(); },
          "The device's address of the first byte; a pointer for host memory alone.")
      .def_property_readonly(
          "nbytes", [](const RegionObject& self) { return self.open()->region.size_bytes(); },
          "The length in bytes.")
      .def_property_readonly(
          "type", [](const RegionObject& self) { return word_of(type_of(*self.open())); },
          "The type of memory: 'host', 'gaudi', 'cuda', 'rocm' or 'dmabuf'.")
      .def_property_readonly(
          "device",
          [](const RegionObject& self) {
            return self.open()->region.allocation().domain().device();
          },
          "The Device whose memory it is.")
      .def_property_readonly(
          "path", [](const RegionObject& self) { return word_of(self.open()->region.path()); },
          "How the NICs reach it: 'host', 'zero_copy', 'peer_memory', 'staged', ...")
      .def_property_readonly(
          "access", [](const RegionObject& self) { return words_of(self.open()->region.access()); },
          "The rights that it is registered for, a frozenset.")
      .def_property_readonly(
          "dmabuf_fd", [](const RegionObject& self) { return self.open()->region.dmabuf_fd(); },
          "The dma-buf by which it is registered, which stays the region's; -1 for host memory.")
      .def_property_readonly(
          "owner",
          [](const RegionObject& self) -> py::object {
            const auto owner = py::reinterpret_borrow<py::object>(self.open()->owner);
            return py::isinstance<HeldBuffer>(owner) ? owner.attr("obj") : owner;
          },
          "The object that keeps the memory: what register() was given, or what it found there (a "
          "tensor without its graph, DLPack's capsule); None for addresses and new memory.")
      .def_property_readonly(
          "closed", [](const RegionObject& self) { return self.hold == nullptr; },
          "Whether close() was called.");
}

void bind_calls(RegionClass& region) {
  region
      .def(
          "explain", [](const RegionObject& self) { return explain(*self.open()); },
          "Every path that there is, the best first: which one was taken, and why not the others.")
      .def("pack_key", &pack_key,
           R"(Gives a key to the region, or to a part of it, for a peer that has no name for it.

offset, length: the part, in bytes; all behind the offset without a length.
access: 'remote_read', 'remote_write' or both; without it the region's own.
revocable: MemoryKey.revoke() will be called.
expires_after: seconds.
attach: a Publication, by which processes of the same node find the dma-buf.
Raises InvalidArgument, and as Context.register().)")
      .def(
          "blocks",
          [](const RegionObject& self, std::uint64_t block_bytes) {
            const SharedRegion hold = self.open();
            return block_table({SliceObject{hold, 0, hold->region.size_bytes()}}, block_bytes);
          },
          py::arg("block_bytes"),
          "All of it as a BlockTable. Raises InvalidArgument unless it is "
          "a whole number of blocks.")
      .def("close", &close,
           "Ends the registration, as soon as no transfer, key or advertised name uses it any "
           "more. Raises "
           "BufferError while memoryviews or arrays of the region's memory exist.");
}

void bind_region(py::module_& module) {
  RegionClass region(module, "Region",
                     R"(Memory that the context's NICs may move.

Context.register() makes one of memory that is there, Context.allocate() with new memory.
region[a:b] is the Slice of these bytes, for put(), get(), send() and receive(). The memory stays
registered, and the object that owns it alive, as long as this, a transfer, a key or a listener
uses it. Host memory is a buffer: memoryview(region), numpy.frombuffer(region).)");
  region.def("__len__", [](const RegionObject& self) { return self.open()->region.size_bytes(); })
      .def("__getitem__",
           [](const RegionObject& self, const py::slice& part) {
             const auto [offset, length] = range_of(part, self.open()->region.size_bytes());
             return SliceObject{self.hold, offset, length};
           })
      .def("__getitem__",
           [](const RegionObject&, const py::object&) { return index_needs_slice(); })
      .def("__enter__", [](const py::object& self) { return self; })
      .def("__exit__", [](RegionObject& self, const py::args&) { close(self); })
      .def("__repr__", &show_region);
  bind_exports(region);
  bind_facts(region);
  bind_calls(region);
  bind_copies(region);
  // pybind11 does not tell when a view goes, but close() must know.
  auto* const type = reinterpret_cast<PyHeapTypeObject*>(region.ptr());
  type->as_buffer.bf_getbuffer = get_buffer;
  type->as_buffer.bf_releasebuffer = release_buffer;
  type->ht_type.tp_as_buffer = &type->as_buffer;
}

template <class Object>
void bind_slice(py::module_& module, const char* name, const char* doc) {
  py::class_<Object> slice(module, name, doc);
  slice.def("__len__", [](const Object& self) { return self.length; })
      .def("__getitem__",
           [](const Object& self, const py::slice& part) {
             const auto [offset, length] = range_of(part, self.length);
             return Object{self.hold, self.offset + offset, length};
           })
      .def("__getitem__", [](const Object&, const py::object&) { return index_needs_slice(); })
      .def("__repr__",
           [name](const Object& self) {
             return "<hbmwire." + std::string(name) + " " + std::to_string(self.length) +
                    " bytes from " + std::to_string(self.offset) + " on>";
           })
      .def_property_readonly(
          "offset", [](const Object& self) { return self.offset; },
          "Where it begins in its region, in bytes.")
      .def_property_readonly(
          "nbytes", [](const Object& self) { return self.length; }, "The length in bytes.")
      .def_property_readonly(
          "region",
          [](const Object& self) {
            if constexpr (std::is_same_v<Object, SliceObject>) {
              return RegionObject{self.hold, 0};
            } else {
              return RemoteObject{self.hold};
            }
          },
          "The region that it is a part of.");
  if constexpr (std::is_same_v<Object, SliceObject>) {
    slice.def("__bytes__", [](const SliceObject& self) {
      return read(self, 0, std::nullopt,
                  Deadline::after(std::chrono::duration<double>(kCopyTimeout)));
    });
    bind_copies(slice);
  }
}

void bind_remote_region(py::module_& module) {
  py::class_<RemoteObject>(module, "RemoteRegion",
                           "Memory of the peer, as Endpoint.remote() gives it. It ends with the "
                           "connection. remote[a:b] is the RemoteSlice of these bytes.")
      .def("__len__", [](const RemoteObject& self) { return self.hold->length_bytes(); })
      .def("__getitem__",
           [](const RemoteObject& self, const py::slice& part) {
             const auto [offset, length] = range_of(part, self.hold->length_bytes());
             return RemoteSliceObject{self.hold, offset, length};
           })
      .def("__getitem__",
           [](const RemoteObject&, const py::object&) { return index_needs_slice(); })
      .def("__repr__",
           [](const RemoteObject& self) {
             return "<hbmwire.RemoteRegion " + std::string(word_of(self.hold->type())) + " " +
                    std::to_string(self.hold->length_bytes()) + " bytes, " +
                    std::string(word_of(self.hold->path())) + ">";
           })
      .def_property_readonly(
          "nbytes", [](const RemoteObject& self) { return self.hold->length_bytes(); },
          "The length in bytes.")
      .def_property_readonly(
          "type", [](const RemoteObject& self) { return word_of(self.hold->type()); },
          "The type of memory at the peer.")
      .def_property_readonly(
          "path", [](const RemoteObject& self) { return word_of(self.hold->path()); },
          "How the peer's NIC reaches it; 'staged': its process alone does.")
      .def_property_readonly(
          "access", [](const RemoteObject& self) { return words_of(self.hold->access()); },
          "The rights that the peer gives, a frozenset.")
      .def(
          "blocks",
          [](const RemoteObject& self, std::uint64_t block_bytes) {
            return remote_block_table({RemoteSliceObject{self.hold, 0, self.hold->length_bytes()}},
                                      block_bytes);
          },
          py::arg("block_bytes"),
          "All of it as a RemoteBlockTable. Raises InvalidArgument unless "
          "it is a whole number of blocks.");
}

}  // namespace

void bind_memory(py::module_& module) {
  bind_slice<SliceObject>(module, "Slice",
                          "A part of a Region: region[a:b]. It keeps the memory registered.");
  bind_slice<RemoteSliceObject>(module, "RemoteSlice", "A part of a RemoteRegion: remote[a:b].");
  bind_remote_region(module);
  bind_region(module);
}

}  // namespace hbmwire::python

// SPDX-License-Identifier: MIT
#include "context.hpp"

#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <utility>

#include "hbmwire/attach.hpp"
#include "hbmwire/counters.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/nic.hpp"
#include "hbmwire/topology.hpp"

#include "arguments.hpp"
#include "parts.hpp"
#include "words.hpp"

namespace hbmwire::python {

const Context& ContextObject::open() const {
  if (closed_) refuse("the context is closed");
  return context_;
}

const SharedWorker& ContextObject::worker() {
  if (worker_) return worker_;
  SharedWorker made = create_worker(options_);
  // Another thread may have made one meanwhile.
  if (!worker_) worker_ = std::move(made);
  return worker_;
}

SharedWorker ContextObject::create_worker(const WorkerOptions& options) {
  SharedWorker worker = WorkerObject::create(open(), options);
  static_cast<void>(open());  // raises if another thread has closed the context meanwhile
  std::erase_if(workers_, [](const auto& one) { return one.expired(); });
  workers_.push_back(worker);
  return worker;
}

void ContextObject::close() {
  closed_ = true;
  for (const auto& one : std::exchange(workers_, {})) {
    if (const SharedWorker worker = one.lock()) worker->close();
  }
  worker_.reset();
}

namespace {

ContextOptions context_options(Options& given) {
  ContextOptions options;
  if (const auto nics = given.take("nics")) options.nics = strings_of(*nics);
  if (const auto types = given.take("memory")) {
    const bool is_one = PyUnicode_Check(types->ptr()) != 0;
    const py::object all = is_one ? py::make_tuple(*types) : *types;
    for (const py::handle type : items_of(all, "memory", "types of memory are needed"))
      options.memory.push_back(from_word<MemoryType>(type));
  }
  const auto require = given.take("require");
  const auto allow = given.take("allow");
  options.paths = policy_of(require.value_or(py::none()), allow.value_or(py::tuple()));
  given.take("gid_index", options.gid_index);
  given.take("default_device", options.default_device);
  return options;
}

std::unique_ptr<ContextObject> create(const py::args& none, const py::kwargs& given) {
  if (!none.empty()) throw py::type_error("Context() takes all by name, as nics=\"mlx5_0\"");
  Options options(given, "Context");
  const ContextOptions wanted = context_options(options);
  const WorkerOptions worker = worker_options(options);
  options.done();
  return std::make_unique<ContextObject>(value_without_gil([&] { return Context::create(wanted); }),
                                         worker);
}

/// The default access: everything that the memory allows, except atomics, which not every NIC has.
Access access_or_all(const py::object& access, bool read_only) {
  if (!access.is_none()) return access_of(access);
  if (read_only) return Access::remote_read;
  return Access::local_write | Access::remote_write | Access::remote_read;
}

Result<Region> register_dmabuf(const Context& context, const py::object& described, Access access) {
  DmabufMemory memory;
  memory.fd = described.attr("fd").cast<int>();
  memory.length_bytes = described.attr("length").cast<std::uint64_t>();
  memory.offset_bytes = described.attr("offset").cast<std::uint64_t>();
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the program's own address
  memory.mapping = reinterpret_cast<void*>(described.attr("mapping").cast<std::uintptr_t>());
  memory.read_only = described.attr("read_only").cast<bool>();
  const WithoutGil released;
  return context.register_dmabuf(memory, access);
}

Result<Region> register_address(const Context& context, std::uint64_t address, std::uint64_t length,
                                const std::string& device, Access access,
                                const OwnedMemory& owned) {
  const WithoutGil released;
  HBMWIRE_TRY_ASSIGN(const Allocation memory, context.borrow(address, length, device));
  return context.register_memory(owned.keep_with(memory), access);
}

bool writes(Access access) noexcept {
  return has(access, Access::local_write) || has(access, Access::remote_write) ||
         has(access, Access::remote_atomic);
}

RegionObject register_memory(ContextObject& self, const py::object& memory,
                             const py::object& access, const py::object& device) {
  const Context& context = self.open();
  // describe() returns (kind, address, length, device, read-only, owner).
  const auto described = py::module_::import("hbmwire._memory")
                             .attr("describe")(memory, device_of(device))
                             .cast<py::tuple>();
  const auto kind = described[0].cast<std::string>();
  const bool read_only = described[4].cast<bool>();
  const py::object owner = described[5];
  const Access rights = access_or_all(access, read_only);
  if (read_only && writes(rights)) {
    raise(make_error(Errc::permission_denied, Stage::register_memory,
                     "the object gives its memory read-only; access='remote_read' or ()"));
  }
  if (kind == "address") {
    const DropsOwners drops;  // if the registration fails, the owner goes with `owned`
    const OwnedMemory owned(owner);
    auto region = register_address(context, described[1].cast<std::uint64_t>(),
                                   described[2].cast<std::uint64_t>(),
                                   described[3].cast<std::string>(), rights, owned);
    const auto hold = std::make_shared<RegionHold>(context, owned, value(std::move(region)));
    hold->read_only = read_only;
    return {hold, 0};
  }
  auto region = [&]() -> Result<Region> {
    if (kind == "dmabuf") return register_dmabuf(context, owner, rights);
    const Allocation attached = owner.cast<const AttachedMemory&>().memory;
    const WithoutGil released;
    return context.register_memory(attached, rights);
  }();
  const auto hold = std::make_shared<RegionHold>(context, owner, value(std::move(region)));
  hold->read_only = read_only;
  return {hold, 0};
}

RegionObject allocate(ContextObject& self, const py::object& type, const py::object& nbytes,
                      const py::object& access, const py::kwargs& given) {
  const Context& context = self.open();
  const auto of = from_word<MemoryType>(type);
  const std::uint64_t size = number_of(nbytes, "nbytes");
  const Access rights = access_or_all(access, false);
  Options options(given, "allocate");
  const MemoryOptions wanted = memory_options(options);
  options.done();
  Region region =
      value_without_gil([&] { return context.allocate_region(of, size, rights, wanted); });
  return {std::make_shared<RegionHold>(context, py::none(), std::move(region)), 0};
}

AttachedMemory attach_to(ContextObject& self, const py::object& where, const py::object& timeout) {
  const auto& address = object_of<AttachAddress>(where, "address", "an AttachAddress");
  const Context& context = self.open();
  const Deadline deadline = deadline_of(timeout);
  return value_without_gil([&] { return attach(context, address, deadline); });
}

std::vector<std::string> nics_near(const ContextObject& self, const std::string& pci_address) {
  std::vector<std::string> names;
  const std::vector<NicDevice> nics = value(self.open().nics());
  for (const NearNic& nic : self.open().nics_near(pci_address, nics)) names.push_back(nic.name);
  return names;
}

/// Calls a method of the context's own worker.
template <class... Given>
py::object of_worker(const py::object& self, const char* method, Given&&... given) {
  return py::cast(self.cast<ContextObject&>().worker()).attr(method)(std::forward<Given>(given)...);
}

constexpr const char* kContext = R"(The memory and the NICs of this machine, looked for once.

nics: names as "mlx5_0" or "mlx5_0:2", several for large transfers by several; "none": by TCP.
memory: only these types are looked for.
require: device memory by this path alone, as "zero_copy"; allow: only these paths. Memory or a
connection that can't keep to it is refused, with the reason.
gid_index: the entry of the ports' GID tables.
default_device: the device that is meant if several have the same address.
max_transfers, progress_thread, eager_bytes, receive_pool_bytes, unexpected_bytes, times: of its
worker.
Missing hardware is no error: `memory` says what is missing. Raises InvalidArgument.)";

}  // namespace

// NOLINTNEXTLINE(readability-function-size): a table
void bind_context(py::module_& module) {
  py::class_<ContextObject>(module, "Context", kContext)
      .def(py::init(&create))
      .def("__enter__", [](const py::object& self) { return self; })
      .def("__exit__", [](ContextObject& self, const py::args&) { self.close(); })
      .def("__aenter__", [](const py::object& self) { return in_aio("immediately", self); })
      .def("__aexit__",
           [](const py::object& self, const py::args&) { return in_aio("close_context", self); })
      .def("__repr__",
           [](const ContextObject& self) {
             return self.is_closed() ? "<hbmwire.Context closed>" : "<hbmwire.Context>";
           })
      .def_property_readonly(
          "memory", [](const ContextObject& self) { return self.open().memory(); },
          "A MemoryProbe for each type of memory: its devices, or why there is none.")
      .def(
          "counters", [](const ContextObject& self) { return value(self.open().counters()); },
          "Counters of all of its workers, those that have ended as well.")
      .def(
          "nics", [](const ContextObject& self) { return value(self.open().nics()); },
          "Every RDMA device of this machine, as it is now: a list of NicDevice. Raises NotFound "
          "if there is none.")
      .def("nics_near", &nics_near, py::arg("pci_address"),
           "The names of the NICs that can carry the memory of a device, the nearest first.")
      .def(
          "find",
          [](const ContextObject& self, const py::object& address, const py::object& length,
             const py::object& device) {
            return value(self.open().find(number_of(address, "address"),
                                          number_of(length, "length"), device_of(device)));
          },
          py::arg("address"), py::arg("length") = 1, py::arg("device") = "",
          "To which device an address belongs: an AddressInfo. Raises InvalidArgument if "
          "several devices have it and none is named.")
      .def("register", &register_memory, py::arg("memory"), py::kw_only(),
           py::arg("access") = py::none(), py::arg("device") = "",
           R"(Registers memory with the NICs: a Region.

memory: bytes-like, numpy, anything with __dlpack__ or __cuda_array_interface__, torch tensors of
the CPU, CUDA, ROCm and Gaudi ("hpu"), (address, length), (address, length, device), a Dmabuf, or
AttachedMemory. It has to be contiguous. It lives as long as anything uses it.
access: words of "local_write", "remote_write", "remote_read", "remote_atomic"; without it all but
the last, and of read-only memory "remote_read".
device: a PCI address or an index, for addresses that several Gaudi cards have.
Raises TypeError (no memory), InvalidArgument (strided, empty), PermissionDenied (read-only, or a
path that the policy excludes), NotSupported, Exhausted.)")
      .def("allocate", &allocate, py::arg("type"), py::arg("nbytes"), py::kw_only(),
           py::arg("access") = py::none(),
           R"(Allocates memory and registers it: a Region.

type: 'host', 'gaudi', 'cuda' or 'rocm'. access: as for register().
device: a PCI address or an index; without it the first that is free.
owner: of Gaudi, 'automatic', 'synapse' or 'hl_thunk'.
pages: of the host, 'normal', 'huge_2m' or 'huge_1g'; shared: a memfd; numa_node: bound to it.
Raises NotFound (no such device), Busy, Exhausted, PermissionDenied, NotSupported.)")
      .def_property_readonly(
          "worker", [](ContextObject& self) { return self.worker(); },
          "Its own Worker, which connect(), listen() and invite() take.")
      .def(
          "create_worker",
          [](ContextObject& self, const py::kwargs& given) {
            Options options(given, "create_worker");
            const WorkerOptions wanted = worker_options(options, self.options());
            options.done();
            return self.create_worker(wanted);
          },
          R"(Makes a further Worker. Options that are not given are the context's own.

max_transfers: at a time (4096). progress_thread: a thread of the library makes progress.
eager_bytes, receive_pool_bytes, unexpected_bytes: for messages. times: Report.times.)")
      .def(
          "connect",
          [](const py::object& self, const py::object& peer, const py::args& more,
             const py::object& timeout, const py::kwargs& options) {
            return of_worker(self, "connect", peer, *more, py::arg("timeout") = timeout, **options);
          },
          py::arg("peer"), py::arg("timeout") = 30.0, "Worker.connect().")
      .def(
          "aconnect",
          [](const py::object& self, const py::object& peer, const py::args& more,
             const py::object& timeout, const py::kwargs& options) {
            return of_worker(self, "aconnect", peer, *more, py::arg("timeout") = timeout,
                             **options);
          },
          py::arg("peer"), py::arg("timeout") = 30.0, "Worker.aconnect().")
      .def(
          "listen",
          [](const py::object& self, const py::object& port, const py::object& address,
             const py::kwargs& options) {
            return of_worker(self, "listen", port, address, **options);
          },
          py::arg("port") = 0, py::arg("address") = "", "Worker.listen().")
      .def(
          "invite",
          [](const py::object& self, const py::kwargs& options) {
            return of_worker(self, "invite", **options);
          },
          "Worker.invite().")
      .def("attach", &attach_to, py::arg("address"), py::kw_only(), py::arg("timeout") = 5.0,
           "Memory that another process of this node published: AttachedMemory, for register(). "
           "Raises NotFound (withdrawn), PeerFailed, PermissionDenied, TimedOut.")
      .def("close", &ContextObject::close, "Closes its workers, and all that belongs to them.")
      .def_property_readonly(
          "closed", [](const ContextObject& self) { return self.is_closed(); },
          "Whether close() was called.");
}

}  // namespace hbmwire::python

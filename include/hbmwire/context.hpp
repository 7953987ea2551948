// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hbmwire/error.hpp"
#include "hbmwire/export.hpp"
#include "hbmwire/memory.hpp"
#include "hbmwire/path.hpp"
#include "hbmwire/region.hpp"

namespace hbmwire {

namespace detail {
struct ContextState;
struct Internals;
}  // namespace detail

// Defined in headers that fewer programs need: hbmwire.hpp lists them.
class MemoryDomain;
class Nic;
struct AddressInfo;
struct Counters;
struct GaudiMemory;
struct MemoryProbe;
struct NearNic;
struct NicDevice;
struct PciLink;
struct Settings;

/// How a Context is made.
struct ContextOptions {
  std::vector<MemoryType> memory;  ///< only these are looked for; empty: all

  /// The NICs that memory is registered with, by names as Nic::open() takes them. Endpoints
  /// communicate by the first one whose port is up when they are connected, and large transfers go
  /// by up to four of them at once. The end that accepts uses the NICs at the same places of its
  /// list as the end that connects: NICs of one network belong at the same place of both lists.
  /// Empty: the first that Nic::open() finds. "none" alone: as on a machine without NICs, by TCP.
  std::vector<std::string> nics = {};

  /// Index in the GID table of the port, for each of the NICs; empty: the setting's
  /// (HBMWIRE_GID_INDEX), else as Nic::open() chooses. Where rdma_cm connects, the GID is that of
  /// the address.
  std::optional<std::uint8_t> gid_index = {};

  /// The paths by which memory may travel. EndpointOptions::paths restricts them further.
  PathPolicy paths = {};

  /// The device that is meant where several have the same address (the memory of each Gaudi of a
  /// type begins at the same one) and the call of find() or borrow() names none: a PCI address
  /// ("0000:33:00.0"), or an index ("1"). Empty: HBMWIRE_DEFAULT_DEVICE, and without that such an
  /// address is an error.
  std::string default_device = {};
};

/// A dma-buf of any exporter (udmabuf, dma-heap, vgem, DRM, another process).
struct DmabufMemory {
  int fd = -1;                     ///< stays the application's; the library keeps a duplicate
  std::uint64_t offset_bytes = 0;  ///< where the memory begins in the dma-buf
  std::uint64_t length_bytes = 0;  ///< > 0; the dma-buf must be as long
  /// Where the application has mapped `offset_bytes` of it, or null. It is then the memory's
  /// address, and the CPU copies.
  void* mapping = nullptr;
  /// The memory is registered for reading alone, even if the descriptor allows writing.
  bool read_only = false;
};

/// The memory and the NICs of this machine, looked for once. Copies share it. Thread-safe.
///
/// create() loads the vendors' libraries and reads what sysfs and the libraries tell; a device is
/// opened only when it is named, first allocated on, or borrowed from the application.
class HBMWIRE_API Context {
 public:
  /// Looks for devices. Missing hardware is no error: memory() says what is missing. Errors:
  /// Stage::configure (an invalid setting, a path policy that contradicts itself).
  static Result<Context> create(const ContextOptions& options = {});

  /// One entry for each MemoryType, in that order: its devices, or why there is none.
  [[nodiscard]] const std::vector<MemoryProbe>& memory() const noexcept;

  /// The settings, as create() read them (settings_from_environment()).
  [[nodiscard]] const Settings& settings() const noexcept;

  /// Counters of all of its workers, those that have ended as well (counters.hpp). Errors:
  /// Errc::exhausted.
  [[nodiscard]] Result<Counters> counters() const;

  /// Every RDMA device of this machine with its ports, as they are now, in the order of their names
  /// ("mlx5_2" before "mlx5_10"). Opens each for the moment. Errors: Stage::probe (none there, or
  /// libibverbs can't look); a fault of one of them is its NicDevice::refusal.
  [[nodiscard]] Result<std::vector<NicDevice>> nics() const;

  /// Those of `nics` (as nics() gives them) that can carry the memory of the device at
  /// `pci_address` ("0000:33:00.0"), the nearest first, equally near ones in their order; a Gaudi's
  /// own scale-up NICs are not among them. By hwloc, which looks at this machine once, when first
  /// asked; to a device that it does not see the distance is Distance::unknown. Throws
  /// std::bad_alloc.
  [[nodiscard]] std::vector<NearNic> nics_near(std::string_view pci_address,
                                               const std::vector<NicDevice>& nics) const;

  /// The NUMA node near a PCI device, by hwloc; -1: unknown, or more than one, or no memory to ask.
  [[nodiscard]] int numa_node(std::string_view pci_address) const;

  /// The narrowest PCIe link between a device and `towards`, another one: up to where the way to it
  /// branches off, or up to the root complex (which host memory lies behind) where `towards` is
  /// empty or elsewhere. By sysfs (current_link_speed, current_link_width), as it is now: links are
  /// trained down to save power, and when a slot is bad. Empty: sysfs tells of none (a software
  /// NIC, a virtual machine). Throws std::bad_alloc.
  [[nodiscard]] std::optional<PciLink> pci_link(std::string_view pci_address,
                                                std::string_view towards = {}) const;

  /// The memory of one device, opened unless it is open: a second call for the same device gives
  /// the same domain. Cost: opening a Gaudi card can take seconds on hardware. Errors: Stage::probe
  /// (no library, no device), Stage::open (busy, resetting, refused), configure.
  [[nodiscard]] Result<std::shared_ptr<MemoryDomain>> open(MemoryType type,
                                                           const MemoryOptions& options = {}) const;

  /// Finds out to which device [address, address + length_bytes) belongs. Each type of memory is
  /// asked; an address that none of them claims is the host's. `device` (as MemoryOptions::device,
  /// or empty) is for addresses that several Gaudi cards have. Opens nothing. Errors:
  /// Errc::invalid_argument when the address is ambiguous (ContextOptions::default_device helps),
  /// or the range leaves its allocation.
  [[nodiscard]] Result<AddressInfo> find(std::uint64_t address, std::uint64_t length_bytes = 1,
                                         std::string_view device = {}) const;

  /// The application's own memory at [address, address + length_bytes), wherever find() says it
  /// lies, for Nic::register_memory() and Buffer. Opens its device. Errors: as find() and open().
  [[nodiscard]] Result<Allocation> borrow(std::uint64_t address, std::uint64_t length_bytes,
                                          std::string_view device = {}) const;

  /// Makes Gaudi memory of the application known, until the last copy is gone; export and
  /// registration go by the application's own device fd. Its unmap and free succeed right after
  /// that, and not before (the driver refuses to unmap what is exported). Errors: Stage::open (not
  /// the fd of a Gaudi), Errc::invalid_argument (known already).
  [[nodiscard]] Result<Allocation> adopt(const GaudiMemory& memory) const;

  /// Makes a dma-buf of any exporter known, until the last copy is gone. Its address is `mapping`,
  /// or one that nothing else in the process has. Where the exporter lets the CPU map it, the CPU
  /// copies, else a NIC in loopback. A dma-buf that was opened for reading alone can be registered
  /// for that alone. Errors: Stage::open; Errc::invalid_argument: not a dma-buf, too short, a
  /// mapping that is another offset's, or an import's already.
  [[nodiscard]] Result<Allocation> import_dmabuf(const DmabufMemory& memory) const;

  /// The NICs of ContextOptions::nics, opened when first asked for. Errors: as Nic::open().
  [[nodiscard]] Result<std::vector<Nic>> open_nics() const;

  /// New memory of the first device of a type, or of the one that `options` name. Errors: as open()
  /// and MemoryDomain::allocate().
  [[nodiscard]] Result<Allocation> allocate(MemoryType type, std::uint64_t size_bytes,
                                            const MemoryOptions& options = {}) const;

  /// New memory that is registered with the context's NICs: allocate() and register_memory() in
  /// one. The region holds the memory. Errors: as those.
  [[nodiscard]] Result<Region> allocate_region(MemoryType type, std::uint64_t size_bytes,
                                               Access access,
                                               const MemoryOptions& options = {}) const;

  /// Registers memory with the context's NICs, for endpoints: memory of the application's own
  /// (borrow()), an allocation, a dma-buf (import_dmabuf()). Errors: as those and
  /// Nic::register_memory(), which without a NIC are Errc::invalid_argument: not all of it is
  /// mapped, readable and within its file; Errc::permission_denied: not all of it is writable, for
  /// an access that writes (docs/registration.md); Errc::permission_denied, Stage::register_memory:
  /// it would travel by a path that ContextOptions::paths excludes, and why the better one can't be
  /// had. Device memory that the NIC does not reach is staged (docs/paths.md): this process moves
  /// what peers put there or get. The first registration of a device that is not zero_copy is
  /// logged.
  [[nodiscard]] Result<Region> register_memory(std::uint64_t address, std::uint64_t length_bytes,
                                               Access access) const;
  [[nodiscard]] Result<Region> register_memory(const void* address, std::uint64_t length_bytes,
                                               Access access) const;
  [[nodiscard]] Result<Region> register_memory(const Allocation& memory, Access access) const;
  [[nodiscard]] Result<Region> register_dmabuf(const DmabufMemory& memory, Access access) const;

  /// ContextOptions::paths, completed by the settings.
  [[nodiscard]] const PathPolicy& paths() const noexcept;

 private:
  friend struct detail::Internals;

  explicit Context(std::shared_ptr<detail::ContextState> state) noexcept
      : state_(std::move(state)) {}

  std::shared_ptr<detail::ContextState> state_;
};

}  // namespace hbmwire

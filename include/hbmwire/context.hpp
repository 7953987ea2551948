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

// Defined in headers that fewer programs need; hbmwire.hpp lists them.
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
  std::vector<MemoryType> memory;  ///< types to look for; empty: all

  /// The NICs that memory is registered with, by names as Nic::open() takes them. An endpoint
  /// communicates by the first one whose port is up when it connects. Large transfers go by up to
  /// four NICs at once. The end that accepts uses the NICs at the same places of its list as the
  /// end that connects, so NICs of one network belong at the same place of both lists. Empty: the
  /// first NIC that Nic::open() finds. "none" alone: by TCP, as on a machine without NICs.
  std::vector<std::string> nics = {};

  /// Index in the GID table of the port, for each of the NICs. Empty: the setting's
  /// (HBMWIRE_GID_INDEX), or else as Nic::open() chooses. A connection by rdma_cm takes the GID of
  /// its address.
  std::optional<std::uint8_t> gid_index = {};

  /// The paths by which memory may travel. EndpointOptions::paths restricts them further.
  PathPolicy paths = {};

  /// The device that is meant if several have the same address and the call of find() or borrow()
  /// names none. (The memory of each Gaudi of one type begins at the same address.) A PCI address
  /// ("0000:33:00.0"), or an index ("1"). Empty: HBMWIRE_DEFAULT_DEVICE; if that is not set either,
  /// such an address is an error.
  std::string default_device = {};
};

/// A dma-buf of any exporter (udmabuf, dma-heap, vgem, DRM, another process).
struct DmabufMemory {
  int fd = -1;                     ///< stays the application's; the library keeps a duplicate
  std::uint64_t offset_bytes = 0;  ///< where the memory begins in the dma-buf
  std::uint64_t length_bytes = 0;  ///< > 0; the dma-buf must hold all of it
  /// Where the application has mapped the dma-buf's byte at `offset_bytes`, or null. With a
  /// mapping, the memory's address is that of the mapping, and the CPU copies.
  void* mapping = nullptr;
  /// Registers the memory for reading alone, even if the descriptor allows writing.
  bool read_only = false;
};

/// The memory and the NICs of this machine, looked for once. Copies share it. Thread-safe.
///
/// create() loads the vendors' libraries, and reads sysfs and the libraries' device lists. It opens
/// no device: that happens when a device is named, first allocated on, or borrowed from the
/// application.
class HBMWIRE_API Context {
 public:
  /// Looks for devices. Missing hardware is no error: memory() says why it is missing. Errors:
  /// Stage::configure (an invalid setting, a path policy that contradicts itself).
  static Result<Context> create(const ContextOptions& options = {});

  /// One entry for each MemoryType, in that order: its devices, or why there is none.
  [[nodiscard]] const std::vector<MemoryProbe>& memory() const noexcept;

  /// The settings, as create() read them (settings_from_environment()).
  [[nodiscard]] const Settings& settings() const noexcept;

  /// Counters of all its workers, including those that have ended (counters.hpp). Errors:
  /// Errc::exhausted.
  [[nodiscard]] Result<Counters> counters() const;

  /// Every RDMA device of this machine with its ports, as they are now, in the order of their names
  /// ("mlx5_2" before "mlx5_10"). Opens each device for a moment. Errors: Stage::probe (there is
  /// none, or libibverbs cannot look). The fault of a single device is its NicDevice::refusal.
  [[nodiscard]] Result<std::vector<NicDevice>> nics() const;

  /// The devices of `nics` (as nics() gives them) that can carry the memory of the device at
  /// `pci_address` ("0000:33:00.0"), nearest first. Equally near ones keep their order. A Gaudi's
  /// own scale-up NICs are left out. Distances come from hwloc, which looks at this machine once,
  /// at the first call; a device that hwloc does not see is at Distance::unknown. Throws
  /// std::bad_alloc.
  [[nodiscard]] std::vector<NearNic> nics_near(std::string_view pci_address,
                                               const std::vector<NicDevice>& nics) const;

  /// The NUMA node near a PCI device, by hwloc. -1: unknown, more than one, or no memory to ask.
  [[nodiscard]] int numa_node(std::string_view pci_address) const;

  /// The narrowest PCIe link on the way from a device towards another one, up to where that way
  /// branches off. If `towards` is empty or elsewhere, up to the root complex, behind which host
  /// memory lies. From sysfs (current_link_speed, current_link_width), as it is now: links are
  /// trained down to save power, and when a slot is bad. Empty: sysfs tells of none (a software
  /// NIC, a virtual machine). Throws std::bad_alloc.
  [[nodiscard]] std::optional<PciLink> pci_link(std::string_view pci_address,
                                                std::string_view towards = {}) const;

  /// The memory of one device, opened unless it is open. A second call for the same device gives
  /// the same domain. Cost: opening a Gaudi card can take seconds on hardware. Errors: Stage::probe
  /// (no library, no device), Stage::open (busy, resetting, refused), configure.
  [[nodiscard]] Result<std::shared_ptr<MemoryDomain>> open(MemoryType type,
                                                           const MemoryOptions& options = {}) const;

  /// Finds out to which device [address, address + length_bytes) belongs. Asks each type of memory;
  /// an address that no type claims is the host's. `device` (as MemoryOptions::device, or empty) is
  /// for addresses that several Gaudi cards have. Opens nothing. Errors: Errc::invalid_argument if
  /// the address is ambiguous (ContextOptions::default_device helps), or if the range leaves its
  /// allocation.
  [[nodiscard]] Result<AddressInfo> find(std::uint64_t address, std::uint64_t length_bytes = 1,
                                         std::string_view device = {}) const;

  /// The application's own memory at [address, address + length_bytes), in whichever memory find()
  /// says it lies. For Nic::register_memory() and Buffer. Opens its device. Errors: as find() and
  /// open().
  [[nodiscard]] Result<Allocation> borrow(std::uint64_t address, std::uint64_t length_bytes,
                                          std::string_view device = {}) const;

  /// Makes Gaudi memory of the application known, until the last copy has gone. Export and
  /// registration go by the application's own device fd. The application can unmap and free the
  /// memory once the last copy has gone, and not before, since the driver refuses to unmap exported
  /// memory. Errors: Stage::open (not the fd of a Gaudi), Errc::invalid_argument (known already).
  [[nodiscard]] Result<Allocation> adopt(const GaudiMemory& memory) const;

  /// Makes a dma-buf of any exporter known, until the last copy has gone. Its address is `mapping`,
  /// or else one that nothing else in the process has. The CPU copies where the exporter lets it
  /// map the dma-buf, elsewhere a NIC in loopback. A dma-buf that was opened for reading alone can
  /// only be registered for reading. Errors: Stage::open; Errc::invalid_argument: not a dma-buf,
  /// too short, a mapping that begins at another place of its page than `offset_bytes`, or a
  /// mapping that belongs to another import.
  [[nodiscard]] Result<Allocation> import_dmabuf(const DmabufMemory& memory) const;

  /// The NICs of ContextOptions::nics, opened at the first call. Errors: as Nic::open().
  [[nodiscard]] Result<std::vector<Nic>> open_nics() const;

  /// New memory of the first device of a type, or of the device that `options` name. Errors: as
  /// open() and MemoryDomain::allocate().
  [[nodiscard]] Result<Allocation> allocate(MemoryType type, std::uint64_t size_bytes,
                                            const MemoryOptions& options = {}) const;

  /// New memory that is registered with the context's NICs: allocate() and register_memory() in
  /// one. The region holds the memory. Errors: as allocate() and register_memory().
  [[nodiscard]] Result<Region> allocate_region(MemoryType type, std::uint64_t size_bytes,
                                               Access access,
                                               const MemoryOptions& options = {}) const;

  /// Registers memory with the context's NICs, for endpoints: the application's own memory
  /// (borrow()), an allocation, or a dma-buf (import_dmabuf()). Device memory that the NIC does not
  /// reach is staged (docs/paths.md): this process then moves the bytes that peers put there or
  /// get. The first registration of a device that is not zero_copy is logged. Errors: as borrow(),
  /// import_dmabuf() and Nic::register_memory(). Without a NIC, Errc::invalid_argument: not all of
  /// the memory is mapped, readable and within its file; Errc::permission_denied: not all of it is
  /// writable, for an access that writes (docs/registration.md). With Stage::register_memory,
  /// Errc::permission_denied: ContextOptions::paths excludes the path that the memory would take;
  /// the error says why no better path is available.
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

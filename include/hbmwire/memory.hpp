// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "hbmwire/error.hpp"
#include "hbmwire/export.hpp"
#include "hbmwire/fd.hpp"

namespace hbmwire {

enum class MemoryType : std::uint8_t { host, gaudi };

[[nodiscard]] HBMWIRE_API std::string_view to_string(MemoryType type) noexcept;

/// What is known of the device behind a memory domain.
struct DeviceInfo {
  MemoryType type = MemoryType::host;
  std::string name;         ///< "host", or the card: "gaudi2 0000:33:00.0"
  std::string pci_address;  ///< "dddd:bb:dd.f"; empty for host memory
  std::string
      driven_by;  ///< who owns the device in this process: "SynapseAI", "hl-thunk"; empty for host
  std::uint64_t size_bytes = 0;  ///< all of the device's memory; 0: not limited by the device
  std::uint64_t page_bytes = 0;  ///< an allocation occupies whole pages of this size
  int numa_node = -1;            ///< -1: unknown
};

/// A dma-buf and the place of an address range in it: one type, so that the parts can't be mixed
/// up. The fd is closed when the last copy of this value is gone; an MR made from it keeps its own
/// reference.
struct DmabufRange {
  std::shared_ptr<const Fd> fd;
  std::uint64_t base_address = 0;  ///< device address of the dma-buf's first byte
  std::uint64_t offset_bytes = 0;  ///< where the range begins in the dma-buf
  std::uint64_t length_bytes = 0;
  std::uint64_t generation =
      0;  ///< differs for each allocation of the process, also at the same address

  [[nodiscard]] std::uint64_t address() const noexcept { return base_address + offset_bytes; }
};

class MemoryDomain;

namespace detail {
struct AllocationState;
}

/// Memory of a domain. Copies share it; it is freed with the last copy, and whatever is made of it
/// (Region, Buffer) holds one, so that memory is never freed below a registration.
class HBMWIRE_API Allocation {
 public:
  /// For implementers of MemoryDomain: `address` will be given back to `domain->release()`.
  Allocation(std::shared_ptr<MemoryDomain> domain, std::uint64_t address, std::uint64_t size_bytes);

  [[nodiscard]] std::uint64_t address()
      const noexcept;  ///< of the device; a pointer only for host memory
  [[nodiscard]] std::uint64_t size_bytes() const noexcept;  ///< as asked for
  [[nodiscard]] MemoryDomain& domain() const noexcept;

 private:
  std::shared_ptr<detail::AllocationState> state_;
};

/// One device's memory. Thread-safe. Errors carry Stage::allocate, export_dmabuf or copy and the
/// device's name.
class HBMWIRE_API MemoryDomain : public std::enable_shared_from_this<MemoryDomain> {
 public:
  virtual ~MemoryDomain() = default;
  MemoryDomain(const MemoryDomain&) = delete;
  MemoryDomain& operator=(const MemoryDomain&) = delete;

  [[nodiscard]] virtual const DeviceInfo& device() const noexcept = 0;

  /// Allocates `size_bytes` (> 0), aligned to 4096 bytes at least. Contents are undefined.
  virtual Result<Allocation> allocate(std::uint64_t size_bytes) = 0;

  /// The dma-buf that holds [address, address + length_bytes), which must lie within one live
  /// allocation. One dma-buf per allocation (or pool), made on first use. Host memory:
  /// Errc::not_supported.
  virtual Result<DmabufRange> export_dmabuf(std::uint64_t address, std::uint64_t length_bytes) = 0;

  /// True when the device, or the CPU for host memory, can copy by itself (copy_in, copy_out).
  [[nodiscard]] virtual bool has_copy_engine() const noexcept = 0;

  /// Host to device / device to host, complete on return. Bytes that a NIC wrote must have been
  /// flushed before.
  virtual Result<void> copy_in(std::uint64_t address, std::span<const std::byte> from) = 0;
  virtual Result<void> copy_out(std::uint64_t address, std::span<std::byte> to) = 0;

 protected:
  MemoryDomain() = default;

 private:
  friend struct detail::AllocationState;
  virtual void release(std::uint64_t address) noexcept = 0;
};

/// Which device of a domain to open, and how.
struct MemoryOptions {
  /// Gaudi: a PCI address ("0000:33:00.0"), or an index ("1"); empty: the first one that is free.
  std::string device;

  /// Gaudi: who drives the card. `automatic` takes SynapseAI where its library is there, since it
  /// has the copy engine, else hl-thunk. A card that SynapseAI already owns in this process is
  /// borrowed.
  enum class Owner : std::uint8_t { automatic, synapse, hl_thunk } owner = Owner::automatic;
};

/// Opens the memory of one device. Cost: opening a Gaudi card can take seconds on hardware.
/// Errors: Stage::probe (no library, no device), Stage::open (busy, resetting, refused), configure.
[[nodiscard]] HBMWIRE_API Result<std::shared_ptr<MemoryDomain>> open_memory(
    MemoryType type, const MemoryOptions& options = {});

}  // namespace hbmwire

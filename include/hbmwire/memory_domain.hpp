// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "hbmwire/deadline.hpp"
#include "hbmwire/error.hpp"
#include "hbmwire/export.hpp"
#include "hbmwire/fd.hpp"
#include "hbmwire/memory.hpp"

/// Below allocations: one device's memory, how it is exported and who copies. For programs that
/// bring an accelerator of their own, or copy by themselves.
namespace hbmwire {

/// The device behind a memory domain.
struct DeviceInfo {
  MemoryType type = MemoryType::host;  ///< the type of its memory
  std::string name;                    ///< "host", or the device: "gaudi2 0000:33:00.0"
  std::string pci_address;             ///< "dddd:bb:dd.f"; empty for host memory
  /// The library by which this process drives the device: "SynapseAI", "hl-thunk", "habanalabs"
  /// (the Gaudi driver's own calls, where hl-thunk is not installed), "CUDA", "ROCr"; empty for
  /// host memory, and before it is opened where that is decided then.
  std::string driven_by;
  std::uint64_t size_bytes = 0;  ///< all of the device's memory; 0: unknown, or not limited by it
  std::uint64_t page_bytes = 0;  ///< an allocation occupies whole pages of this size
  int numa_node = -1;            ///< -1: unknown
  /// The state that its driver gave when it was looked for: "Operational", "in reset"; empty where
  /// it says nothing. Only opening it tells whether a process has it.
  std::string status;
};

/// One type of memory as it was found, without opening anything.
struct MemoryProbe {
  MemoryType type = MemoryType::host;  ///< the type that was looked for
  std::string library;              ///< what drives it: "libcuda.so.1, driver API 12.8"; may be ""
  std::vector<DeviceInfo> devices;  ///< by index
  std::optional<Error> missing;     ///< why there is no device that could be used
};

/// Memory of a Gaudi card that the application allocated and mapped, through hl-thunk or by the
/// driver's own calls. Neither can be asked about it, so that the application must tell.
struct GaudiMemory {
  int device_fd = -1;              ///< as hlthunk_open() gave it; stays the application's
  std::uint64_t base_address = 0;  ///< exactly what hlthunk_device_memory_map() returned
  std::uint64_t size_bytes = 0;    ///< as allocated
};

/// A dma-buf and the place of an address range in it: one type, so that the parts can't be mixed
/// up. The fd is closed when the last copy of this value is gone; an MR made from it keeps its own
/// reference.
struct DmabufRange {
  std::shared_ptr<const Fd> fd;    ///< the dma-buf; all copies share it
  std::uint64_t base_address = 0;  ///< device address of the dma-buf's first byte
  std::uint64_t offset_bytes = 0;  ///< where the range begins in the dma-buf
  std::uint64_t length_bytes = 0;  ///< of the range
  /// Differs for each allocation of the process, also at the same address.
  std::uint64_t generation = 0;
  bool writable = true;  ///< false: its exporter gave it out for reading alone

  /// The device's address of the first byte of the range.
  [[nodiscard]] std::uint64_t address() const noexcept { return base_address + offset_bytes; }
};

/// Names a range of memory to the other processes of its node: CUDA's and ROCm's IPC handles
/// (cuIpcGetMemHandle(), hsa_amd_ipc_memory_create()), and of host memory the descriptor by which
/// others of the same user find it (/proc/PID/fd). Plain bytes, to be sent as they are to a process
/// that runs the same build of this library. A process that has them may read and write all of the
/// allocation, which must live until each such process has given it back; otherwise CUDA's
/// behaviour is undefined.
struct IpcHandle {
  static constexpr std::size_t kTokenBytes = 64;  ///< length of `token`

  MemoryType type = MemoryType::cuda;          ///< the type of the memory
  std::array<char, 16> pci_address{};          ///< of the device, as DeviceInfo's
  std::array<std::byte, kTokenBytes> token{};  ///< the vendor's; of host memory the library's
  std::uint64_t block_bytes = 0;               ///< what the token stands for
  std::uint64_t offset_bytes = 0;              ///< where the range begins in it
  std::uint64_t length_bytes = 0;              ///< of the range

  bool operator==(const IpcHandle&) const = default;
};

/// Whether processes open each other's memory of GPUs of this type, if the GPU agrees.
[[nodiscard]] constexpr bool has_ipc(MemoryType type) noexcept {
  return type == MemoryType::cuda || type == MemoryType::rocm;
}

/// How memory shows that it has gone, to the holder of a registration or of anything else that
/// belongs to it.
enum class Lifetime : std::uint8_t {
  use,  ///< not at all, or the owner demands that nothing is kept: keep nothing after one use
  allocation,     ///< MemoryObserver is told when the last Allocation of it has gone
  generation,     ///< MemoryDomain::find() gives another AddressInfo::generation, or nothing
  address_space,  ///< the application's host memory: it is unmapped, moved or discarded (munmap(2),
                  ///< mremap(2), madvise(2))
};

/// The facts that are known of an address.
struct AddressInfo {
  const DeviceInfo* device = nullptr;  ///< never null; lives as long as the Context that was asked
  /// First address and length of the allocation that holds the address. For host memory that the
  /// library did not allocate, both are those that were asked for.
  std::uint64_t base_address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t generation = 0;  ///< as DmabufRange::generation; 0: unknown
  Path path = Path::host;        ///< how a NIC would reach it
  /// The way that may be taken where `path` fails: the settings allow it ("try"), and it is there.
  std::optional<Path> otherwise = {};
  std::optional<Error> no_dmabuf = {};  ///< of device memory: why `path` is not zero_copy
  Lifetime lifetime = Lifetime::use;    ///< how its end shows
  std::optional<Error> refusal;         ///< why no NIC can; empty when it can
};

/// The use that a program announces for memory, MemoryDomain::advise().
enum class Advice : std::uint8_t {
  prefetch,       ///< it will be used soon: bring it where it is used
  will_not_need,  ///< it will not be used for a while; its contents stay
};

/// Learns when memory that a MemoryDomain allocated, adopted or imported has gone.
class HBMWIRE_API MemoryObserver {
 public:
  MemoryObserver() = default;
  MemoryObserver(const MemoryObserver&) = delete;
  MemoryObserver& operator=(const MemoryObserver&) = delete;
  virtual ~MemoryObserver() = default;

  /// The last Allocation of [address, address + size_bytes) has gone, in the calling thread. The
  /// memory is given back with the last copy of `memory`: keep one only to go on using it (a NIC
  /// may be writing to it). Must not allocate from that domain.
  virtual void memory_gone(std::uint64_t address, std::uint64_t size_bytes,
                           const std::shared_ptr<const void>& memory) noexcept = 0;
};

namespace detail {
struct Internals;
class MemoryObservers;
}  // namespace detail

/// A copy between host and device that goes on by itself, or is done. Move-only; one thread at a
/// time. Destroying it waits until the device no longer touches the host's bytes.
class HBMWIRE_API PendingCopy {
 public:
  /// An implementer of MemoryDomain derives its copies from this; their destructor waits.
  class Work {
   public:
    Work() = default;
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;
    virtual ~Work() = default;

    /// True once the copy is complete, false while it goes on; an error ends it. Never blocks.
    virtual Result<bool> poll() = 0;
  };

  /// A copy that is complete.
  PendingCopy() noexcept = default;

  /// A copy that `work` carries out: for implementers of MemoryDomain.
  explicit PendingCopy(std::unique_ptr<Work> work) noexcept : work_(std::move(work)) {}

  /// Never blocks. After true or an error every further call says true.
  Result<bool> poll();

  /// Until it is complete. Errors: Stage::copy; Errc::timed_out, Errc::cancelled, and then the copy
  /// still goes on.
  Result<void> wait(const Wait& wait);

 private:
  std::unique_ptr<Work> work_;
};

/// The memory of one device. Thread-safe. Errors carry Stage::allocate, export_dmabuf or copy and
/// the device's name.
///
/// A domain of the application's own derives from this, and is held by a std::shared_ptr. It also
/// overrides the private function release(address), which gives back what allocate() gave and must
/// not throw.
class HBMWIRE_API MemoryDomain : public std::enable_shared_from_this<MemoryDomain> {
 public:
  virtual ~MemoryDomain();
  MemoryDomain(const MemoryDomain&) = delete;
  MemoryDomain& operator=(const MemoryDomain&) = delete;

  /// The device. Valid as long as the domain.
  [[nodiscard]] virtual const DeviceInfo& device() const noexcept = 0;

  /// Allocates `size_bytes` (> 0), aligned to 4096 bytes at least. Contents are undefined.
  virtual Result<Allocation> allocate(std::uint64_t size_bytes) = 0;

  /// The facts about the allocation that holds all of [address, address + length_bytes); nothing
  /// when it is not this domain's, which is no error. Throws std::bad_alloc, as a report.
  virtual std::optional<AddressInfo> find(std::uint64_t address, std::uint64_t length_bytes) = 0;

  /// The dma-buf that holds [address, address + length_bytes), which must lie within one live
  /// allocation. One dma-buf per allocation (or pool), made on first use. Host memory:
  /// Errc::not_supported.
  virtual Result<DmabufRange> export_dmabuf(std::uint64_t address, std::uint64_t length_bytes) = 0;

  /// The engine that copies between host and device: "CPU", "SynapseAI DMA", "CUDA", "ROCr DMA";
  /// empty where only a NIC in loopback can.
  [[nodiscard]] virtual std::string_view copy_engine() const noexcept = 0;

  /// Copies from host to device, and from device to host. The host's bytes must stay until the copy
  /// is complete or destroyed. Bytes that a NIC wrote must have been flushed before. Copies of one
  /// domain are done in the order in which they were started. Errors: Errc::not_supported without a
  /// copy engine.
  virtual Result<PendingCopy> start_copy_in(std::uint64_t address,
                                            std::span<const std::byte> from) = 0;
  virtual Result<PendingCopy> start_copy_out(std::uint64_t address, std::span<std::byte> to) = 0;

  /// Has the engine reach host memory by itself, until unpin_host() or the domain's end: copies to
  /// and from it need no other host memory in between, begin at once, and are in no order with
  /// other copies. The memory must stay as it is, and not overlap what is pinned. Makes the
  /// device's driver lock it: for memory that is copied often. Errors: Stage::copy;
  /// Errc::not_supported where copies are not the faster for it, Errc::invalid_argument.
  virtual Result<void> pin_host(std::span<std::byte> memory);

  /// Ends pin_host() for the same memory, which must not be being copied.
  virtual void unpin_host(std::span<std::byte> memory) noexcept;

  /// Whether start_copy_from() copies out of `source`: this device's memory, or that of another one
  /// between which and this one the vendor's library copies.
  [[nodiscard]] virtual bool copies_from(const MemoryDomain& source) const noexcept;

  /// Device to device, by an engine: from `source`'s memory to this domain's; between host memories
  /// by the CPU of the thread that polls the copy. The ranges must not overlap, and stay allocated
  /// until the copy is complete or destroyed. In no order with other copies. Bytes that a NIC wrote
  /// must have been flushed before. Errors: Errc::not_supported unless copies_from(source).
  virtual Result<PendingCopy> start_copy_from(MemoryDomain& source, std::uint64_t from,
                                              std::uint64_t to, std::uint64_t length_bytes);

  /// Host to device and device to host, complete on return.
  Result<void> copy_in(std::uint64_t address, std::span<const std::byte> from, const Wait& wait);
  Result<void> copy_out(std::uint64_t address, std::span<std::byte> to, const Wait& wait);

  /// Makes what NICs have completed into this device's memory visible to its own engines, where
  /// the vendor has a call for that. False when there is none: a NIC's read of the region is the
  /// flush then (docs/adr/0005).
  virtual Result<bool> flush() { return false; }

  /// Tells the device's driver what will be done with [address, address + length_bytes), which must
  /// lie within one live allocation. Changes no contents. Errors: Errc::not_supported where there
  /// is no such call.
  virtual Result<void> advise(std::uint64_t address, std::uint64_t length_bytes, Advice advice);

  /// Whether other processes open memory of this domain, as far as is known without asking its
  /// driver: a GPU's, and host memory that is `shared`.
  [[nodiscard]] virtual bool is_shareable() const noexcept;

  /// Names [address, address + length_bytes), which must lie within one live allocation, to the
  /// other processes of this node. Errors: Stage::open; Errc::not_supported: the vendor has no such
  /// call, or not for this kind of memory (mapped, managed, pooled; of the host, if it is not
  /// `shared`); Errc::invalid_argument.
  virtual Result<IpcHandle> ipc_handle(std::uint64_t address, std::uint64_t length_bytes);

  /// Opens memory of another process for this device's engine: memory of this device, or with CUDA
  /// of another GPU that this one reaches. It serves copies within the device (start_copy_from()),
  /// and to and from the host. However often this is called, the memory is opened once, and given
  /// back with the last Allocation of it. Nothing tells when its owner dies, or frees it too early.
  /// No NIC reaches it by way of this process. Any host domain opens host memory of another process
  /// of this user; it stays readable when its owner has freed it. `handle` may be a stranger's
  /// bytes. Errors: Stage::open; Errc::not_supported, Errc::invalid_argument: of a device that this
  /// one does not reach, or of nothing; of host memory as docs/memory.md has them. CUDA refuses a
  /// process' own memory; ROCr may open it elsewhere.
  virtual Result<Allocation> open_ipc(const IpcHandle& handle);

  /// Tells `observer`, as long as it lives, of every allocation that goes from now on. Errors:
  /// Errc::exhausted, Stage::allocate (no memory): it is told of nothing then.
  Result<void> observe(std::weak_ptr<MemoryObserver> observer);

 protected:
  /// Throws std::bad_alloc.
  MemoryDomain();

 private:
  friend struct detail::Internals;

  virtual void release(std::uint64_t address) noexcept = 0;

  std::unique_ptr<detail::MemoryObservers> state_;
};

/// How much more memory of the host a process can have before a limit refuses it, or the kernel
/// kills it.
struct MemoryRoom {
  std::uint64_t bytes = UINT64_MAX;        ///< more than what it has
  std::uint64_t limit_bytes = UINT64_MAX;  ///< all that the limit allows
  Hint limit = Hint::none;                 ///< which limit that is, and how it is raised
};

/// This process's: the narrowest of RLIMIT_AS, RLIMIT_DATA, the memory limits of its cgroup and of
/// all above it (versions 1 and 2), and what the machine has free. Page cache counts as free, as it
/// gives way. Allocations of host memory beyond it are refused before a page is touched. Any
/// thread; throws std::bad_alloc and nothing else.
[[nodiscard]] HBMWIRE_API MemoryRoom host_memory_room();

}  // namespace hbmwire

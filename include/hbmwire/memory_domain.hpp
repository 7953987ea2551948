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

/// The layer below allocations: one device's memory, how it is exported, and how it is copied. For
/// programs that bring an accelerator of their own, or copy by themselves.
namespace hbmwire {

/// The device behind a memory domain.
struct DeviceInfo {
  MemoryType type = MemoryType::host;  ///< the type of its memory
  std::string name;                    ///< "host", or the device: "gaudi2 0000:33:00.0"
  std::string pci_address;             ///< "dddd:bb:dd.f"; empty for host memory
  /// The library by which this process drives the device: "SynapseAI", "hl-thunk", "habanalabs"
  /// (the Gaudi driver's own calls, if hl-thunk is not installed), "CUDA", "ROCr". Empty for host
  /// memory, and before the device is opened if the choice is made then.
  std::string driven_by;
  std::uint64_t size_bytes = 0;  ///< all of the device's memory; 0: unknown, or not limited by it
  std::uint64_t page_bytes = 0;  ///< an allocation occupies whole pages of this size
  int numa_node = -1;            ///< -1: unknown
  /// The state that its driver reported when the library looked for devices: "Operational", "in
  /// reset"; empty if the driver reports none. Whether another process has the device shows only
  /// when it is opened.
  std::string status;
};

/// One type of memory as it was found, without opening anything.
struct MemoryProbe {
  MemoryType type = MemoryType::host;  ///< the type that was looked for
  std::string library;              ///< the driver library: "libcuda.so.1, driver API 12.8"; may be
                                    ///< ""
  std::vector<DeviceInfo> devices;  ///< by index
  std::optional<Error> missing;     ///< why there is no device that could be used
};

/// Memory of a Gaudi card that the application allocated and mapped, through hl-thunk or by the
/// driver's own calls. Neither can be asked about it, so the application must tell.
struct GaudiMemory {
  int device_fd = -1;              ///< as hlthunk_open() gave it; stays the application's
  std::uint64_t base_address = 0;  ///< exactly what hlthunk_device_memory_map() returned
  std::uint64_t size_bytes = 0;    ///< as allocated
};

/// A dma-buf and the place of an address range in it. They are one type, so that the parts cannot
/// be mixed up. The fd is closed when the last copy of this value has gone; an MR made from it
/// keeps its own reference.
struct DmabufRange {
  std::shared_ptr<const Fd> fd;    ///< the dma-buf; all copies share it
  std::uint64_t base_address = 0;  ///< device address of the dma-buf's first byte
  std::uint64_t offset_bytes = 0;  ///< where the range begins in the dma-buf
  std::uint64_t length_bytes = 0;  ///< of the range
  /// Differs for each allocation of the process, even at the same address.
  std::uint64_t generation = 0;
  bool writable = true;  ///< false: its exporter allows only reading

  /// The device's address of the first byte of the range.
  [[nodiscard]] std::uint64_t address() const noexcept { return base_address + offset_bytes; }
};

/// Names a range of memory to the other processes of its node. It holds CUDA's or ROCm's IPC handle
/// (cuIpcGetMemHandle(), hsa_amd_ipc_memory_create()); for host memory, the descriptor by which
/// other processes of the same user find it (/proc/PID/fd). Plain bytes, to be sent as they are to
/// a process that runs the same build of this library. A process that has them may read and write
/// all of the allocation. The allocation must live until each such process has given it back;
/// otherwise CUDA's behaviour is undefined.
struct IpcHandle {
  static constexpr std::size_t kTokenBytes = 64;  ///< length of `token`

  MemoryType type = MemoryType::cuda;          ///< the type of the memory
  std::array<char, 16> pci_address{};          ///< of the device, as DeviceInfo's
  std::array<std::byte, kTokenBytes> token{};  ///< the vendor's; for host memory the library's
  std::uint64_t block_bytes = 0;               ///< length of the memory that the token names
  std::uint64_t offset_bytes = 0;              ///< where the range begins in it
  std::uint64_t length_bytes = 0;              ///< of the range

  bool operator==(const IpcHandle&) const = default;
};

/// Whether processes can open each other's memory of GPUs of this type, if the GPU agrees.
[[nodiscard]] constexpr bool has_ipc(MemoryType type) noexcept {
  return type == MemoryType::cuda || type == MemoryType::rocm;
}

/// How memory shows that it has gone. The holder of a registration, or of anything else that
/// belongs to the memory, relies on it.
enum class Lifetime : std::uint8_t {
  use,  ///< not at all, or its owner demands that nothing is kept: keep nothing after one use
  allocation,     ///< MemoryObserver is told when the last Allocation of it has gone
  generation,     ///< MemoryDomain::find() gives another AddressInfo::generation, or nothing
  address_space,  ///< the application unmaps, moves or discards it: host memory (munmap(2),
                  ///< mremap(2), madvise(2))
};

/// The facts that are known of an address.
struct AddressInfo {
  const DeviceInfo* device = nullptr;  ///< never null; lives as long as the Context that was asked
  /// First address and length of the allocation that holds the address. For host memory that the
  /// library did not allocate, both are as in the call.
  std::uint64_t base_address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t generation = 0;  ///< as DmabufRange::generation; 0: unknown
  Path path = Path::host;        ///< how a NIC would reach it
  /// A path that may be taken if `path` fails: the settings allow it ("try"), and it exists.
  std::optional<Path> otherwise = {};
  std::optional<Error> no_dmabuf = {};  ///< for device memory: why `path` is not zero_copy
  Lifetime lifetime = Lifetime::use;    ///< how its end shows
  std::optional<Error> refusal;         ///< why no NIC can reach it; empty if one can
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
  /// memory is given back with the last copy of `memory`: keep a copy only while the memory is
  /// still in use (a NIC may be writing to it). Must not allocate from that domain.
  virtual void memory_gone(std::uint64_t address, std::uint64_t size_bytes,
                           const std::shared_ptr<const void>& memory) noexcept = 0;
};

namespace detail {
struct Internals;
class MemoryObservers;
}  // namespace detail

/// A copy between host and device that goes on by itself, or is complete. Move-only; one thread at
/// a time. Destroying it waits until the device no longer touches the host's bytes.
class HBMWIRE_API PendingCopy {
 public:
  /// An implementer of MemoryDomain derives its copies from this. Their destructor must wait until
  /// the device no longer touches the host's bytes.
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

  /// True once the copy is complete, false while it goes on; an error ends it. Never blocks. After
  /// true or an error every further call gives true.
  Result<bool> poll();

  /// Waits until the copy is complete. Errors: Stage::copy; Errc::timed_out or Errc::cancelled,
  /// after which the copy still goes on.
  Result<void> wait(const Wait& wait);

 private:
  std::unique_ptr<Work> work_;
};

/// The memory of one device. Thread-safe. Errors carry Stage::allocate, export_dmabuf or copy and
/// the device's name.
///
/// A domain of the application's own derives from this, and is held by a std::shared_ptr. It also
/// overrides the private function release(address), which gives back memory of allocate() and must
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

  /// The facts about the allocation that holds all of [address, address + length_bytes). Nothing if
  /// the memory is not this domain's, which is no error. Throws std::bad_alloc, as reports do.
  virtual std::optional<AddressInfo> find(std::uint64_t address, std::uint64_t length_bytes) = 0;

  /// The dma-buf that holds [address, address + length_bytes), which must lie within one live
  /// allocation. There is one dma-buf for each allocation (or pool), made at its first use. Host
  /// memory: Errc::not_supported.
  virtual Result<DmabufRange> export_dmabuf(std::uint64_t address, std::uint64_t length_bytes) = 0;

  /// The engine that copies between host and device: "CPU", "SynapseAI DMA", "CUDA", "ROCr DMA";
  /// empty if only a NIC in loopback can copy.
  [[nodiscard]] virtual std::string_view copy_engine() const noexcept = 0;

  /// Copies from host to device, and from device to host. The host's bytes must stay until the copy
  /// is complete or destroyed. Bytes that a NIC wrote must have been flushed before. Copies of one
  /// domain are done in the order in which they were started. Errors: Errc::not_supported without a
  /// copy engine.
  virtual Result<PendingCopy> start_copy_in(std::uint64_t address,
                                            std::span<const std::byte> from) = 0;
  virtual Result<PendingCopy> start_copy_out(std::uint64_t address, std::span<std::byte> to) = 0;

  /// Lets the engine reach host memory directly, until unpin_host() or the domain's end. Copies to
  /// and from that memory then need no bounce buffer and begin at once, but have no order with
  /// other copies. The memory must stay as it is, and must not overlap other pinned memory. The
  /// device's driver locks it, which pays off only for memory that is copied often. Errors:
  /// Stage::copy; Errc::not_supported if copies would not be faster, Errc::invalid_argument.
  virtual Result<void> pin_host(std::span<std::byte> memory);

  /// Ends pin_host() for the same memory. No copy of it may be under way.
  virtual void unpin_host(std::span<std::byte> memory) noexcept;

  /// Whether start_copy_from() can copy out of `source`: out of this device's memory, or out of
  /// another device's if the vendor's library copies between the two.
  [[nodiscard]] virtual bool copies_from(const MemoryDomain& source) const noexcept;

  /// Copies from `source`'s memory to this domain's, by an engine. Between host memories the CPU
  /// copies, in the thread that polls the copy. The ranges must not overlap, and stay allocated
  /// until the copy is complete or destroyed. Has no order with other copies. Bytes that a NIC
  /// wrote must have been flushed before. Errors: Errc::not_supported unless copies_from(source).
  virtual Result<PendingCopy> start_copy_from(MemoryDomain& source, std::uint64_t from,
                                              std::uint64_t to, std::uint64_t length_bytes);

  /// Copies from host to device and from device to host; complete on return.
  Result<void> copy_in(std::uint64_t address, std::span<const std::byte> from, const Wait& wait);
  Result<void> copy_out(std::uint64_t address, std::span<std::byte> to, const Wait& wait);

  /// Makes the bytes of completed NIC writes into this device's memory visible to its own engines,
  /// if the vendor has a call for that. False if there is no such call: then a NIC's read of the
  /// region is the flush (docs/adr/0005).
  virtual Result<bool> flush() { return false; }

  /// Tells the device's driver how [address, address + length_bytes) will be used. The range must
  /// lie within one live allocation. Changes no contents. Errors: Errc::not_supported without such
  /// a call.
  virtual Result<void> advise(std::uint64_t address, std::uint64_t length_bytes, Advice advice);

  /// Whether other processes can open memory of this domain, as far as is known without asking its
  /// driver: true for a GPU's memory, and for host memory that is `shared`.
  [[nodiscard]] virtual bool is_shareable() const noexcept;

  /// Names [address, address + length_bytes), which must lie within one live allocation, to the
  /// other processes of this node. Errors: Stage::open; Errc::not_supported: the vendor has no such
  /// call, or none for this kind of memory (mapped, managed, pooled; host memory that is not
  /// `shared`); Errc::invalid_argument.
  virtual Result<IpcHandle> ipc_handle(std::uint64_t address, std::uint64_t length_bytes);

  /// Opens memory of another process for this device's engine: memory of this device, or with CUDA
  /// of another GPU that this one reaches. The memory serves copies within the device
  /// (start_copy_from()), and copies to and from the host; no NIC reaches it through this process.
  /// It is opened once, however often this is called, and given back with its last Allocation.
  /// Nothing tells when its owner dies, or frees it too early. Any host domain opens host memory of
  /// another process of this user; that memory stays readable after its owner has freed it.
  /// `handle` may come from a stranger. Errors: Stage::open; Errc::not_supported;
  /// Errc::invalid_argument: the handle is of a device that this one does not reach, or names no
  /// memory; for host memory as docs/memory.md says. CUDA refuses memory of the same process; ROCr
  /// may open it at another address.
  virtual Result<Allocation> open_ipc(const IpcHandle& handle);

  /// Tells `observer`, as long as it lives, of every allocation that goes from now on. Errors:
  /// Errc::exhausted, Stage::allocate (no memory): the observer is told of nothing then.
  Result<void> observe(std::weak_ptr<MemoryObserver> observer);

 protected:
  /// Throws std::bad_alloc.
  MemoryDomain();

 private:
  friend struct detail::Internals;

  virtual void release(std::uint64_t address) noexcept = 0;

  std::unique_ptr<detail::MemoryObservers> state_;
};

/// How much more memory of the host a process can have. Beyond it, a limit refuses memory, or the
/// kernel kills the process.
struct MemoryRoom {
  std::uint64_t bytes = UINT64_MAX;        ///< beyond its present memory
  std::uint64_t limit_bytes = UINT64_MAX;  ///< all that the limit allows
  Hint limit = Hint::none;                 ///< which limit that is; hint_text() says how to raise
                                           ///< it
};

/// The room of this process: the narrowest of RLIMIT_AS, RLIMIT_DATA, the memory limits of its
/// cgroup and of all cgroups above it (versions 1 and 2), and the free memory of the machine. Page
/// cache counts as free, since the kernel gives it up. Allocations of host memory beyond this room
/// are refused before a page is touched. Any thread; throws std::bad_alloc and nothing else.
[[nodiscard]] HBMWIRE_API MemoryRoom host_memory_room();

}  // namespace hbmwire

// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "emulation/common/gpu_memory.hpp"
#include "emulation/cuda/abi/cuda.h"

namespace hbmwire::emulation::cuda {

inline constexpr std::uint64_t kHostPage = 4096;
inline constexpr std::uint64_t kGranule = GpuMemory::kGranule;

/// Memory of a GPU: the result of cuMemCreate, or a block that cuMemAlloc divides. Freed with its
/// last user.
class Physical {
 public:
  /// Returns null if the GPU has no room.
  static std::shared_ptr<Physical> allocate(GpuMemory& memory, int device, std::uint64_t bytes);

  /// Attaches memory that another process shares. Returns null with a negative errno in `error` on
  /// failure.
  static std::shared_ptr<Physical> attach(GpuMemory& memory, int device, const ShareKey& key,
                                          int& error);

  ~Physical();
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;

  [[nodiscard]] GpuMemory& memory() const { return memory_; }

  [[nodiscard]] int device() const { return device_; }

  [[nodiscard]] const GpuMemory::Range& range() const { return range_; }

  [[nodiscard]] std::uint64_t id() const { return id_; }

  /// How attach() got the memory; nullopt for memory that allocate() made.
  [[nodiscard]] const std::optional<GpuMemory::Attachment>& attachment() const {
    return attachment_;
  }

  bool rdma_capable = true;  ///< as requested from cuMemCreate
  /// Calls of cuMemCreate and cuMemRetainAllocationHandle, minus those of cuMemRelease.
  std::atomic<unsigned> handles{0};

 private:
  Physical(GpuMemory& memory, int device, const GpuMemory::Range& range);

  GpuMemory& memory_;
  int device_;
  GpuMemory::Range range_;
  std::optional<GpuMemory::Attachment> attachment_;
  std::uint64_t id_;
};

enum class Origin : std::uint8_t {
  alloc,    ///< cuMemAlloc
  mapped,   ///< cuMemMap
  host,     ///< cuMemAllocHost, cuMemHostRegister
  managed,  ///< cuMemAllocManaged
  ipc,      ///< cuIpcOpenMemHandle
};

/// The memory at an address.
struct Allocation {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  Origin origin = Origin::alloc;
  CUcontext context = nullptr;  ///< null for mapped memory, which belongs to no context
  int device = 0;
  std::uint64_t id = 0;                ///< BUFFER_ID
  std::shared_ptr<Physical> physical;  ///< null: host memory of this process
  std::uint64_t offset = 0;            ///< of the first byte in the GPU's memory
  std::uint64_t region = 0;            ///< address of the block or reservation that contains it
  bool sync_memops = false;
  bool accessible = true;             ///< mapped: cuMemSetAccess was called
  std::optional<ShareKey> shared_as;  ///< alloc: its handle's key; ipc: the key it was opened by
  unsigned opened = 0;                ///< ipc: how often opened minus how often closed
  int opener = 0;                     ///< ipc: the GPU of the context that opened it
};

/// Addresses that this library has reserved: for a block of cuMemAlloc, for cuMemAddressReserve, or
/// for host memory. The CPU may access only host memory.
struct Region {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  Origin origin = Origin::alloc;       ///< mapped: from cuMemAddressReserve
  std::shared_ptr<Physical> physical;  ///< null: only reserved, or memory of this process
  CUcontext context = nullptr;
  std::map<std::uint64_t, std::uint64_t> taken;  ///< in a block: from address to bytes
  /// As `taken`, for allocations that were freed while another process had them open.
  std::map<std::uint64_t, std::uint64_t> withdrawn;
};

/// Contiguous memory at `offset`: of a GPU, or of this process if `memory` is null.
struct Piece {
  GpuMemory* memory = nullptr;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

struct AllocationRequest {
  GpuMemory* memory = nullptr;
  int device = 0;
  CUcontext context = nullptr;
  std::uint64_t bytes = 0;
};

/// The arguments of cuIpcOpenMemHandle.
struct OpenRequest {
  GpuMemory* memory = nullptr;
  int device = 0;  ///< the device that programs are told
  CUcontext context = nullptr;
  int opener = 0;  ///< the GPU of the context
  ShareKey key{};
};

/// All addresses of this process that CUDA knows. Thread-safe.
class AddressSpace {
 public:
  CUresult allocate(const AllocationRequest& request, std::uint64_t& address);
  CUresult allocate_managed(const AllocationRequest& request, std::uint64_t& address);
  /// Allocates host memory. With `in_gpu` it is an integrated GPU's memory, which is also the
  /// host's.
  CUresult allocate_host(const AllocationRequest& request, bool in_gpu, std::uint64_t& address);
  /// Frees host memory if `host` is true; memory of cuMemAlloc or cuMemAllocManaged if it is false.
  /// Refuses other memory.
  CUresult free(std::uint64_t address, bool host);

  /// Pins host memory of the program, so that engines reach it (cuMemHostRegister).
  CUresult pin(std::uint64_t address, std::uint64_t bytes, CUcontext context);
  CUresult unpin(std::uint64_t address);
  /// Frees the memory of a context that is being destroyed.
  void free_all_of(CUcontext context);

  CUresult reserve(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t& address);
  CUresult unreserve(std::uint64_t address, std::uint64_t bytes);
  CUresult map(std::uint64_t address, std::uint64_t bytes, std::shared_ptr<Physical> physical);
  CUresult unmap(std::uint64_t address, std::uint64_t bytes);
  CUresult make_accessible(std::uint64_t address, std::uint64_t bytes);

  /// Lets other processes open the allocation that contains the address, until it is freed.
  CUresult offer(std::uint64_t address, ShareKey& key, int& device);
  /// Opens memory that another process offers. Only the last close() of it takes the memory away.
  CUresult open(const OpenRequest& request, std::uint64_t& address);
  CUresult close(std::uint64_t address);

  /// Finds the allocation, mapping or pinned memory that contains the address. Returns false if
  /// there is none.
  bool find(std::uint64_t address, Allocation& found);
  /// Finds the reservation or block that contains the address, even if nothing is allocated or
  /// mapped there.
  bool find_region(std::uint64_t address, Region& found);
  CUresult set_sync_memops(std::uint64_t address, bool on);

  /// Finds the memory behind a range. Returns false if a part of it cannot be reached by a GPU's
  /// engines. Addresses that CUDA does not know belong to this process.
  bool resolve(std::uint64_t address, std::uint64_t bytes, std::vector<Piece>& pieces);
  /// Finds the GPU memory behind whole pages of blocks or mappings, in the order of their
  /// addresses.
  CUresult resolve_export(std::uint64_t address, std::uint64_t bytes, int device,
                          std::vector<GpuMemory::Range>& ranges);

  std::uint64_t count(Origin origin, int device);
  std::uint64_t count_reservations();
  std::uint64_t count_pinned();

 private:
  using Allocations = std::map<std::uint64_t, Allocation>;
  using Regions = std::map<std::uint64_t, Region>;

  Allocation* allocation_at(std::uint64_t address);
  Region* region_at(std::uint64_t address);
  CUresult place_in_block(const AllocationRequest& request, std::uint64_t& address);
  CUresult allocate_region(const AllocationRequest& request, Origin origin, bool in_gpu,
                           std::uint64_t& address);
  /// Enters an allocation at `address` of the region.
  void record(const AllocationRequest& request, Region& region, std::uint64_t address);
  /// Removes an allocation, and its region if that is not a reservation and has no other.
  void erase(Allocations::iterator allocation);
  void drop(Regions::iterator region);
  Allocation* opened_by(const OpenRequest& request);
  bool another_context_has(const OpenRequest& request, const Physical& physical);
  static void withdraw(const Allocation& allocation, Region& region);
  /// Lets the block reuse memory that was withdrawn and that no process has open any more.
  static void take_back_closed(Region& block);
  bool next_mapping(std::uint64_t at, std::uint64_t end, Allocation*& mapping);

  std::shared_mutex mutex_;
  Allocations pinned_;  // the program's own memory
  Allocations allocations_;
  Regions regions_;
  std::uint64_t next_id_ = 1;
};

}  // namespace hbmwire::emulation::cuda

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

/// Memory of one GPU: what cuMemCreate makes, and a block of what cuMemAlloc hands out in pieces.
/// Given back with its last user.
class Physical {
 public:
  /// Null when the GPU has no room.
  static std::shared_ptr<Physical> allocate(GpuMemory& memory, int device, std::uint64_t bytes);

  /// What another process offers; null with a negative errno in `error`.
  static std::shared_ptr<Physical> attach(GpuMemory& memory, int device, const ShareKey& key,
                                          int& error);

  ~Physical();
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;

  [[nodiscard]] GpuMemory& memory() const { return memory_; }

  [[nodiscard]] int device() const { return device_; }

  [[nodiscard]] const GpuMemory::Range& range() const { return range_; }

  [[nodiscard]] std::uint64_t id() const { return id_; }

  /// Nothing when it is this process's own.
  [[nodiscard]] const std::optional<GpuMemory::Attachment>& attachment() const {
    return attachment_;
  }

  bool rdma_capable = true;  ///< what cuMemCreate was asked for
  std::atomic<unsigned> handles{
      0};  ///< cuMemCreate and cuMemRetainAllocationHandle less cuMemRelease

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

/// What lies at an address.
struct Allocation {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  Origin origin = Origin::alloc;
  CUcontext context = nullptr;  ///< null: mapped memory is of none
  int device = 0;
  std::uint64_t id = 0;                ///< BUFFER_ID
  std::shared_ptr<Physical> physical;  ///< null: host memory of this process
  std::uint64_t offset = 0;            ///< of the first byte in the GPU's memory
  std::uint64_t region = 0;            ///< address of the block or reservation that it is in
  bool sync_memops = false;
  bool accessible = true;             ///< mapped: cuMemSetAccess was called
  std::optional<ShareKey> shared_as;  ///< alloc: has a handle; ipc: was opened by it
  unsigned opened = 0;                ///< ipc: how often, less cuIpcCloseMemHandle
  int opener = 0;                     ///< ipc: the GPU of the context that opened it
};

/// Addresses that this library has reserved: a block of cuMemAlloc, cuMemAddressReserve, or host
/// memory. The CPU can touch them only where they are host memory.
struct Region {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  Origin origin = Origin::alloc;       ///< mapped: of cuMemAddressReserve
  std::shared_ptr<Physical> physical;  ///< null: reserved, or memory of this process
  CUcontext context = nullptr;
  std::map<std::uint64_t, std::uint64_t> taken;  ///< of a block: address to bytes
  /// The same of what was freed while another process had it open.
  std::map<std::uint64_t, std::uint64_t> withdrawn;
};

/// Contiguous memory: of a GPU, or where `memory` is null of this process, at `offset`.
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

/// cuIpcOpenMemHandle.
struct OpenRequest {
  GpuMemory* memory = nullptr;
  int device = 0;  ///< what programs are told that it is of
  CUcontext context = nullptr;
  int opener = 0;  ///< the context's GPU
  ShareKey key{};
};

/// All addresses of this process that CUDA knows. Thread-safe.
class AddressSpace {
 public:
  CUresult allocate(const AllocationRequest& request, std::uint64_t& address);
  CUresult allocate_managed(const AllocationRequest& request, std::uint64_t& address);
  /// `in_gpu`: on an integrated GPU, whose memory the host's is.
  CUresult allocate_host(const AllocationRequest& request, bool in_gpu, std::uint64_t& address);
  CUresult free(std::uint64_t address, bool host);

  /// Host memory of the program, which engines reach from here on (cuMemHostRegister).
  CUresult pin(std::uint64_t address, std::uint64_t bytes, CUcontext context);
  CUresult unpin(std::uint64_t address);
  /// What a context leaves when it is destroyed.
  void free_all_of(CUcontext context);

  CUresult reserve(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t& address);
  CUresult unreserve(std::uint64_t address, std::uint64_t bytes);
  CUresult map(std::uint64_t address, std::uint64_t bytes, std::shared_ptr<Physical> physical);
  CUresult unmap(std::uint64_t address, std::uint64_t bytes);
  CUresult make_accessible(std::uint64_t address, std::uint64_t bytes);

  /// Lets other processes open the allocation that holds the address, until it is freed.
  CUresult offer(std::uint64_t address, ShareKey& key, int& device);
  CUresult open(const OpenRequest& request, std::uint64_t& address);
  CUresult close(std::uint64_t address);

  /// The allocation, mapping or pinned memory that holds the address; false when there is none.
  bool find(std::uint64_t address, Allocation& found);
  /// The reservation or block that holds the address, whether anything is there or not.
  bool find_region(std::uint64_t address, Region& found);
  CUresult set_sync_memops(std::uint64_t address, bool on);

  /// Where the bytes are; false when some of them are nowhere that a GPU's engines reach. Addresses
  /// that CUDA does not know are this process's.
  bool resolve(std::uint64_t address, std::uint64_t bytes, std::vector<Piece>& pieces);
  /// The GPU's memory behind whole pages of blocks or mappings, in the order of the addresses.
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
  CUresult own_region(const AllocationRequest& request, Origin origin, bool in_gpu,
                      std::uint64_t& address);
  void record(const AllocationRequest& request, Region& region, std::uint64_t address);
  void erase(Allocations::iterator allocation);
  void drop(Regions::iterator region);
  Allocation* opened_by(const OpenRequest& request);
  bool another_context_has(const OpenRequest& request, const Physical& physical);
  static void withdraw(const Allocation& allocation, Region& region);
  static void take_back_closed(Region& block);
  bool next_mapping(std::uint64_t at, std::uint64_t end, Allocation*& mapping);

  std::shared_mutex mutex_;
  Allocations pinned_;  // the program's own memory
  Allocations allocations_;
  Regions regions_;
  std::uint64_t next_id_ = 1;
};

}  // namespace hbmwire::emulation::cuda

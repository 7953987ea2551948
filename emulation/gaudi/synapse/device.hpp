// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <shared_mutex>

#include "emulation/common/posted_writes.hpp"
#include "emulation/gaudi/abi/hl_thunk.h"
#include "emulation/gaudi/abi/synapse.h"
#include "emulation/gaudi/synapse/device_heap.hpp"
#include "emulation/gaudi/synapse/host_memory.hpp"

namespace hbmwire::emulation::gaudi {

struct CopyRequest {
  std::uint64_t source = 0;
  std::uint64_t bytes = 0;
  std::uint64_t destination = 0;
  synDmaDir direction = HOST_TO_DRAM;
};

struct FillRequest {
  std::uint64_t destination = 0;
  std::uint32_t value = 0;
  std::uint32_t element_bytes = 1;  ///< 1, 2 or 4
  std::uint64_t elements = 0;
};

/// An acquired card, as SynapseAI uses it: an hl-thunk fd, one large mapped pool of HBM for all
/// device memory, and the host memory that the DMA engines may access. Thread-safe.
class Device {
 public:
  /// Takes ownership of an open hl-thunk fd, and closes it on failure too. Returns nullptr and sets
  /// `status` on failure.
  static std::unique_ptr<Device> create(int fd, synStatus& status);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] int fd() const { return fd_; }

  [[nodiscard]] synDeviceInfoV2 info() const;

  [[nodiscard]] std::uint32_t delay_us() const { return delay_us_; }

  void memory_info(std::uint64_t& free_bytes, std::uint64_t& total_bytes);

  synStatus allocate(std::uint64_t bytes, std::uint64_t& address);
  synStatus free(std::uint64_t address);
  synStatus host_allocate(std::uint64_t bytes, void** buffer);
  synStatus host_free(const void* buffer);
  synStatus host_map(std::uint64_t bytes, const void* buffer);
  synStatus host_unmap(const void* buffer);

  /// Returns whether the job's addresses are allocated and mapped. Called when the job is posted.
  bool accepts(const CopyRequest& request);
  bool accepts(const FillRequest& request);
  /// Does the work of the DMA engine. Returns synFail if an address is not allocated or mapped any
  /// more.
  synStatus run(const CopyRequest& request);
  synStatus run(const FillRequest& request);

 private:
  Device(int fd, const hlthunk_hw_ip_info& hw_ip);
  synStatus map_pool();
  /// As accepts(), but the caller holds the lock.
  [[nodiscard]] bool valid(const CopyRequest& request) const;
  [[nodiscard]] bool valid(const FillRequest& request) const;

  [[nodiscard]] char* device_pointer(std::uint64_t address) const {
    return memory_ + (address - pool_base_);
  }

  [[nodiscard]] PostedWrites::Range range_of(std::uint64_t address, std::uint64_t bytes) const;
  /// Does the work of run() on memory to which NICs' writes may not be visible yet.
  synStatus run_among_posted(const CopyRequest& request);

  /// Frees an allocation; the lock is held. Returns whether the address was allocated.
  bool give_back(std::uint64_t address);

  int fd_;
  hlthunk_hw_ip_info hw_ip_;
  std::uint32_t delay_us_ = 0;
  // The pool's allocation. 0 on Gaudi1, which addresses HBM physically.
  std::uint64_t handle_ = 0;
  std::uint64_t pool_base_ = 0;
  std::uint64_t pool_bytes_ = 0;
  std::string file_;                      // the card's backing file
  char* memory_ = nullptr;                // this process's mapping of the pool
  std::uint64_t memory_offset_ = 0;       // the pool's first byte in the card's memory
  std::shared_ptr<PostedWrites> posted_;  // null: NICs' writes are visible at once

  // Jobs hold it shared while they copy. Allocating, mapping and freeing hold it exclusively.
  std::shared_mutex mutex_;
  std::unique_ptr<DeviceHeap> heap_;
  std::unique_ptr<HostMemory> host_;
};

/// The generation of the card that an hl-thunk fd belongs to.
synDeviceType device_type_of(int fd);

}  // namespace hbmwire::emulation::gaudi

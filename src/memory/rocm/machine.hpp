// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/settings.hpp"

#include "memory/range_table.hpp"
#include "memory/rocm/allocations.hpp"
#include "memory/rocm/host_locks.hpp"
#include "memory/rocm/hsa.hpp"
#include "memory/rocm/kernel.hpp"

namespace hbmwire::memory::rocm {

/// The objects that exist once in a process.
struct Runtime {
  Hsa hsa;
  Allocations allocations{hsa};  // destroyed before ROCr is shut down
  HostLocks host_locks{hsa};

  /// Returns the same object as long as it is held anywhere. Errors: those of Hsa::initialize().
  static Result<std::shared_ptr<Runtime>> shared();
};

/// A GPU as ROCr describes it.
struct Gpu {
  DeviceInfo device;
  Agent agent;
  Pool pool;  ///< its memory: coarse-grained, where copies and kernels are fastest
  /// The path by which NICs reach its memory under the settings, or why they cannot.
  Path path = Path::zero_copy;
  std::optional<Error> no_dmabuf;  ///< as in AddressInfo
  std::optional<Error> refusal;
};

/// The place of an address.
struct Place {
  const Gpu* gpu = nullptr;
  std::uint64_t base = 0;  ///< address of the allocation
  std::uint64_t size_bytes = 0;
  bool exportable = false;  ///< allocated by ROCr here; not by graphics, nor another process
};

/// The AMD GPUs of this machine, looked for once. Thread-safe; never changes afterwards.
class Machine {
 public:
  /// Errors: Stage::probe.
  static Result<std::shared_ptr<const Machine>> look(const Settings::Rocm& settings);

  Machine(std::shared_ptr<Runtime> runtime, Use dmabuf)
      : runtime_(std::move(runtime)), dmabuf_(dmabuf) {}

  [[nodiscard]] const std::vector<Gpu>& gpus() const noexcept { return gpus_; }

  /// One of the host's agents, for copies.
  [[nodiscard]] Agent cpu() const noexcept { return cpu_; }

  [[nodiscard]] const Hsa& hsa() const noexcept { return runtime_->hsa; }

  [[nodiscard]] Allocations& allocations() const noexcept { return runtime_->allocations; }

  [[nodiscard]] HostLocks& host_locks() const noexcept { return runtime_->host_locks; }

  /// The memory that the domains of this context have allocated and not released.
  [[nodiscard]] RangeTable<const Gpu*>& own() const noexcept { return own_; }

  /// The place of an address. No value for the host's memory, even if ROCr has pinned it, because
  /// the CPU reads and writes that. Errors: Stage::probe.
  [[nodiscard]] Result<std::optional<Place>> place_of(std::uint64_t address) const;

  /// The answer of MemoryDomain::find() for an address in `place`.
  [[nodiscard]] AddressInfo describe(const Place& place) const;

  /// The dma-buf of the whole allocation.
  [[nodiscard]] Result<ExportedBlock> export_block(const Place& place) const;

 private:
  Result<void> add_gpus();
  Result<void> add_gpu(Agent agent);
  void decide_paths(const Settings::Rocm& settings);

  std::shared_ptr<Runtime> runtime_;
  Use dmabuf_;
  Agent cpu_;
  std::vector<Gpu> gpus_;
  mutable RangeTable<const Gpu*> own_;
};

/// The reason why the memory of such a GPU cannot be exported as a dma-buf that a NIC can use. No
/// value if no requirement is known to be missing.
[[nodiscard]] std::optional<Error> missing_requirement(const Machine& machine, const Gpu& gpu,
                                                       const Kernel& kernel);

}  // namespace hbmwire::memory::rocm

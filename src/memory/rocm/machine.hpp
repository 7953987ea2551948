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

/// What there is one of in a process.
struct Runtime {
  Hsa hsa;
  Allocations allocations{hsa};  // goes before ROCr is shut down
  HostLocks host_locks{hsa};

  /// The same object for as long as anybody holds it. Errors: as Hsa::initialize().
  static Result<std::shared_ptr<Runtime>> shared();
};

/// A GPU as ROCr shows it.
struct Gpu {
  DeviceInfo device;
  Agent agent;
  Pool pool;  ///< its memory: coarse-grained, where copies and kernels are fastest
  /// How NICs reach its memory under the present settings, and why they can't.
  Path path = Path::zero_copy;
  std::optional<Error> no_dmabuf;  ///< as AddressInfo's
  std::optional<Error> refusal;
};

/// Where an address lies.
struct Place {
  const Gpu* gpu = nullptr;
  std::uint64_t base = 0;  ///< of the allocation
  std::uint64_t size_bytes = 0;
  bool exportable = false;  ///< ROCr allocated it here; graphics' and other processes' it did not
};

/// The AMD GPUs of this machine, looked for once. Thread-safe; nothing changes afterwards.
class Machine {
 public:
  /// Errors: Stage::probe.
  static Result<std::shared_ptr<const Machine>> look(const Settings::Rocm& settings);

  Machine(std::shared_ptr<Runtime> runtime, Use dmabuf)
      : runtime_(std::move(runtime)), dmabuf_(dmabuf) {}

  [[nodiscard]] const std::vector<Gpu>& gpus() const noexcept { return gpus_; }

  /// One of the host's, for copies.
  [[nodiscard]] Agent cpu() const noexcept { return cpu_; }

  [[nodiscard]] const Hsa& hsa() const noexcept { return runtime_->hsa; }

  [[nodiscard]] Allocations& allocations() const noexcept { return runtime_->allocations; }

  [[nodiscard]] HostLocks& host_locks() const noexcept { return runtime_->host_locks; }

  /// What the domains of this context have allocated, and not yet given back.
  [[nodiscard]] RangeTable<const Gpu*>& own() const noexcept { return own_; }

  /// Nothing for the host's memory, that which ROCr pinned included: the CPU reads and writes it.
  /// Errors: Stage::probe.
  [[nodiscard]] Result<std::optional<Place>> place_of(std::uint64_t address) const;

  /// What MemoryDomain::find() tells of an address in `place`.
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

/// Why the memory of such a GPU can't be had as a dma-buf that a NIC can use; nothing when all that
/// it takes is there, as far as anybody knows.
[[nodiscard]] std::optional<Error> missing_requirement(const Machine& machine, const Gpu& gpu,
                                                       const Kernel& kernel);

}  // namespace hbmwire::memory::rocm

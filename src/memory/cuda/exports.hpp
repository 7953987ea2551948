// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"

#include "memory/cuda/machine.hpp"

namespace hbmwire::memory::cuda {

/// The dma-bufs of one GPU's memory: one for each allocation, or for each run of mappings, as long
/// as anybody uses it. Thread-safe. Called with the GPU's context current.
class Exports {
 public:
  Exports(const Machine& machine, const Gpu& gpu) : machine_(machine), gpu_(gpu) {}

  /// What `known` says of is exported from its base on, to whole pages of the host, since the
  /// driver wants these: the range keeps its place by its offset. Errors: Stage::export_dmabuf.
  Result<DmabufRange> get(const Known& known, std::uint64_t address, std::uint64_t length_bytes);

  /// Makes synchronous copies of the application be complete before a NIC reads what they wrote.
  Result<void> sync_memops(const Known& known) const;

 private:
  using Key = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;  // generation, base, bytes

  Result<int> call_driver(std::uint64_t begin, std::uint64_t bytes) const;
  Result<void> set_context_flag() const;

  const Machine& machine_;
  const Gpu& gpu_;
  std::mutex mutex_;
  std::map<Key, std::weak_ptr<const Fd>> dmabufs_;
};

}  // namespace hbmwire::memory::cuda

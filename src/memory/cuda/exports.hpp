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

/// The dma-bufs of one GPU's memory. There is one for each allocation or run of mappings, as long
/// as it is in use. Thread-safe. Call it with the GPU's context current.
class Exports {
 public:
  Exports(const Machine& machine, const Gpu& gpu) : machine_(machine), gpu_(gpu) {}

  /// Exports all of `known`, from its base on, rounded to whole pages of the host, because the
  /// driver requires that. The offset in the result gives the place of the range. Errors:
  /// Stage::export_dmabuf.
  Result<DmabufRange> get(const Known& known, std::uint64_t address, std::uint64_t length_bytes);

  /// Makes synchronous copies by the application complete before a NIC reads what they have
  /// written.
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

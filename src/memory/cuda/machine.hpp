// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <vector>

#include "hbmwire/memory_domain.hpp"
#include "hbmwire/settings.hpp"

#include "memory/cuda/addresses.hpp"
#include "memory/cuda/gpu.hpp"

namespace hbmwire::memory::cuda {

/// The GPUs found when the context was made; the provider and its domains share this.
struct Machine {
  const Driver* driver = nullptr;
  std::vector<Gpu> gpus;
  Settings settings;

  /// Null if the device is not in `gpus`.
  [[nodiscard]] const Gpu* gpu_of(int device) const noexcept {
    for (const Gpu& gpu : gpus) {
      if (gpu.device == device) return &gpu;
    }
    return nullptr;
  }

  /// Describes memory that CUDA knows. No value for host memory that was pinned for a GPU with its
  /// own memory.
  [[nodiscard]] std::optional<AddressInfo> info_of(const Known& known) const {
    const Gpu* const gpu = gpu_of(known.device);
    if (gpu == nullptr || (known.of_host && !gpu->integrated)) return std::nullopt;
    AddressInfo info;
    info.device = &gpu->info;
    info.base_address = known.base;
    info.size_bytes = known.bytes;
    info.generation = known.generation;
    // Managed memory counts as capable here: its own refusal below says more.
    const Reach reach = reach_of(*gpu, settings, known.rdma_capable || known.managed);
    info.path = reach.path;
    info.otherwise = reach.otherwise;
    info.no_dmabuf = reach.no_dmabuf;
    info.lifetime = lifetime_of(known);
    info.refusal = reach.refusal;
    if (known.managed) {
      info.refusal =
          make_error(Errc::not_supported, Stage::export_dmabuf, "managed memory has no dma-buf",
                     gpu->info.name, Hint::managed_memory);
    }
    return info;
  }

 private:
  // The application may free its memory at any time; CUDA's buffer id shows whether it did.
  static Lifetime lifetime_of(const Known& known) noexcept {
    if (known.is_ours) return Lifetime::allocation;
    return known.generation != 0 ? Lifetime::generation : Lifetime::use;
  }
};

}  // namespace hbmwire::memory::cuda

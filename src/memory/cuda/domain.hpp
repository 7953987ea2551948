// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "hbmwire/memory_domain.hpp"

#include "memory/cuda/blocks.hpp"
#include "memory/cuda/copy_engine.hpp"
#include "memory/cuda/exports.hpp"
#include "memory/ipc_blocks.hpp"

namespace hbmwire::memory::cuda {

/// One GPU, with its primary context, which never stays current on an application's thread.
class CudaDomain final : public MemoryDomain {
 public:
  /// `gpu` must be one of `machine->gpus`. Errors: Stage::open.
  static Result<std::shared_ptr<CudaDomain>> open(std::shared_ptr<const Machine> machine,
                                                  const Gpu& gpu);

  CudaDomain(std::shared_ptr<const Machine> machine, const Gpu& gpu, ContextHandle context);
  CudaDomain(const CudaDomain&) = delete;
  CudaDomain& operator=(const CudaDomain&) = delete;
  ~CudaDomain() override;

  [[nodiscard]] const DeviceInfo& device() const noexcept override { return gpu_.info; }

  /// An integrated GPU uses the host's memory.
  [[nodiscard]] std::string_view copy_engine() const noexcept override {
    return gpu_.integrated ? "CPU" : "CUDA";
  }

  Result<Allocation> allocate(std::uint64_t size_bytes) override;
  std::optional<AddressInfo> find(std::uint64_t address, std::uint64_t length_bytes) override;
  Result<DmabufRange> export_dmabuf(std::uint64_t address, std::uint64_t length_bytes) override;
  Result<PendingCopy> start_copy_in(std::uint64_t address,
                                    std::span<const std::byte> from) override;
  Result<PendingCopy> start_copy_out(std::uint64_t address, std::span<std::byte> to) override;
  Result<void> pin_host(std::span<std::byte> memory) override;

  void unpin_host(std::span<std::byte> memory) noexcept override { copies_.unpin(memory); }

  [[nodiscard]] bool copies_from(const MemoryDomain& source) const noexcept override;
  Result<PendingCopy> start_copy_from(MemoryDomain& source, std::uint64_t from, std::uint64_t to,
                                      std::uint64_t length_bytes) override;
  Result<bool> flush() override;

  [[nodiscard]] bool is_shareable() const noexcept override { return true; }

  Result<IpcHandle> ipc_handle(std::uint64_t address, std::uint64_t length_bytes) override;
  Result<Allocation> open_ipc(const IpcHandle& handle) override;

  /// The memory at an address, as the domain has allocated it, or else as CUDA knows it. Errors:
  /// Errc::invalid_argument (the range exceeds its allocation).
  Result<std::optional<Known>> known(std::uint64_t address, std::uint64_t length_bytes);

  /// Prepares memory of the application for use by NICs.
  Result<void> prepare(const Known& memory);

 private:
  /// The memory, if it belongs to this GPU. Errors (of `stage`): Errc::invalid_argument (it is not
  /// within one allocation of this GPU).
  Result<Known> own(std::uint64_t address, std::uint64_t length_bytes, Stage stage);
  Result<std::uint64_t> allocate_raw(std::uint64_t bytes);
  Result<std::uint64_t> open_block(const IpcHandle& handle);
  Result<Block> allocate_aligned(std::uint64_t size_bytes);
  [[nodiscard]] bool is_for_cpu(std::uint64_t address);
  [[nodiscard]] int free_raw(std::uint64_t address) const noexcept;
  void release(std::uint64_t address) noexcept override;

  std::shared_ptr<const Machine> machine_;
  const Gpu& gpu_;
  const Driver& driver_;
  ContextHandle context_;
  Blocks blocks_;
  Exports exports_;
  CopyEngine copies_;
  IpcBlocks opened_;
};

}  // namespace hbmwire::memory::cuda

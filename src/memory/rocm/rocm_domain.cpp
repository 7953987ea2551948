// SPDX-License-Identifier: MIT
#include "memory/rocm/rocm_domain.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/descriptors.hpp"
#include "base/guarded.hpp"
#include "memory/ipc_blocks.hpp"
#include "memory/rocm/copy.hpp"

namespace hbmwire::memory::rocm {

namespace {

/// One GPU. ROCr knows all allocations, including the application's, so they are not stored
/// here.
class RocmDomain final : public MemoryDomain {
 public:
  RocmDomain(std::shared_ptr<const Machine> machine, const Gpu& gpu)
      : machine_(std::move(machine)), gpu_(gpu), copies_(machine_, gpu) {}

  [[nodiscard]] const DeviceInfo& device() const noexcept override { return gpu_.device; }

  [[nodiscard]] std::string_view copy_engine() const noexcept override { return "ROCr DMA"; }

  Result<Allocation> allocate(std::uint64_t size_bytes) override;
  std::optional<AddressInfo> find(std::uint64_t address, std::uint64_t length_bytes) override;
  Result<DmabufRange> export_dmabuf(std::uint64_t address, std::uint64_t length_bytes) override;

  [[nodiscard]] bool is_shareable() const noexcept override { return true; }

  Result<IpcHandle> ipc_handle(std::uint64_t address, std::uint64_t length_bytes) override;
  Result<Allocation> open_ipc(const IpcHandle& handle) override;

  Result<PendingCopy> start_copy_in(std::uint64_t address,
                                    std::span<const std::byte> from) override {
    return guarded(Stage::copy, [&]() -> Result<PendingCopy> {
      // The engine only reads them, but ROCr's lock takes no pointer to const.
      auto* const bytes = const_cast<std::byte*>(from.data());
      return copies_.start(CopyQueue::Direction::in, address, {bytes, from.size()});
    });
  }

  Result<PendingCopy> start_copy_out(std::uint64_t address, std::span<std::byte> to) override {
    return guarded(Stage::copy, [&]() -> Result<PendingCopy> {
      return copies_.start(CopyQueue::Direction::out, address, to);
    });
  }

  /// For a copy between GPUs, the other GPU would need access to this one's memory
  /// (hsa_amd_agents_allow_access()), which would hold for the whole process.
  [[nodiscard]] bool copies_from(const MemoryDomain& source) const noexcept override {
    const auto* const other = dynamic_cast<const RocmDomain*>(&source);
    return other != nullptr && other->gpu_.agent == gpu_.agent;
  }

  Result<PendingCopy> start_copy_from(MemoryDomain& source, std::uint64_t from, std::uint64_t to,
                                      std::uint64_t length_bytes) override {
    return guarded(Stage::copy, [&]() -> Result<PendingCopy> {
      if (!copies_from(source))
        return MemoryDomain::start_copy_from(source, from, to, length_bytes);
      return copies_.start_within(from, to, length_bytes);
    });
  }

 private:
  void release(std::uint64_t address) noexcept override;
  Result<std::uint64_t> open_block(const IpcHandle& handle);

  /// The allocation of this GPU that holds the whole range.
  [[nodiscard]] Result<std::optional<Place>> place_of(std::uint64_t address,
                                                      std::uint64_t length_bytes) const;

  std::shared_ptr<const Machine> machine_;
  const Gpu& gpu_;
  CopyQueue copies_;
  IpcBlocks opened_;
};

Result<Allocation> RocmDomain::allocate(std::uint64_t size_bytes) {
  return guarded(Stage::allocate, [&]() -> Result<Allocation> {
    if (size_bytes == 0) {
      return tl::make_unexpected(
          make_error(Errc::invalid_argument, Stage::allocate, "size 0", gpu_.device.name));
    }
    if (size_bytes > gpu_.device.size_bytes) {
      return tl::make_unexpected(make_error(Errc::exhausted, Stage::allocate,
                                            "more than the GPU's memory", gpu_.device.name,
                                            Hint::device_memory_exhausted));
    }
    void* address = nullptr;
    const int status = machine_->hsa().pool_allocate(gpu_.pool, size_bytes, 0, &address);
    if (status != kHsaSuccess) {
      Error error = hsa_error(Stage::allocate, "hsa_amd_memory_pool_allocate", status,
                              gpu_.device.name, Hint::device_memory_exhausted);
      // "Invalid allocation": larger than any could be.
      if (status == kHsaInvalidAllocation) error.code = Errc::exhausted;
      return tl::make_unexpected(error);
    }
    or_undo(
        [&] { machine_->own().insert(std::bit_cast<std::uint64_t>(address), size_bytes, &gpu_); },
        [&] { machine_->hsa().pool_free(address); });
    return Allocation(shared_from_this(), std::bit_cast<std::uint64_t>(address), size_bytes);
  });
}

// Memory that is still exported stays until the last of its dma-bufs is closed: amdgpu ensures
// that.
void RocmDomain::release(std::uint64_t address) noexcept {
  const auto close = [&](std::uint64_t base) {
    destroy_or_log_hsa("hsa_amd_ipc_memory_detach",
                       [&] { return machine_->hsa().ipc_detach(std::bit_cast<void*>(base)); });
  };
  if (opened_.close(address, close)) return;
  // Forgets the memory before it frees it: another thread may get the same address at once.
  static_cast<void>(machine_->own().take(address));
  destroy_or_log_hsa("hsa_amd_memory_pool_free",
                     [&] { return machine_->hsa().pool_free(std::bit_cast<void*>(address)); });
}

Result<std::optional<Place>> RocmDomain::place_of(std::uint64_t address,
                                                  std::uint64_t length_bytes) const {
  // ROCr only reports that address 0 is invalid.
  if (address == 0 || length_bytes == 0) return std::nullopt;
  HBMWIRE_TRY_ASSIGN(const auto place, machine_->place_of(address));
  if (!place || place->gpu != &gpu_) return std::nullopt;
  const std::uint64_t offset = address - place->base;
  if (offset > place->size_bytes || length_bytes > place->size_bytes - offset) return std::nullopt;
  return place;
}

std::optional<AddressInfo> RocmDomain::find(std::uint64_t address, std::uint64_t length_bytes) {
  const auto place = place_of(address, length_bytes);
  if (!place || !*place) return std::nullopt;
  return machine_->describe(**place);
}

Result<DmabufRange> RocmDomain::export_dmabuf(std::uint64_t address, std::uint64_t length_bytes) {
  return guarded(Stage::export_dmabuf, [&]() -> Result<DmabufRange> {
    HBMWIRE_TRY_ASSIGN(const auto place, place_of(address, length_bytes));
    if (!place) {
      return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::export_dmabuf,
                                            "the range is not within one allocation of this GPU",
                                            gpu_.device.name));
    }
    const AddressInfo info = machine_->describe(*place);
    if (info.refusal) return tl::make_unexpected(*info.refusal);
    HBMWIRE_TRY_ASSIGN(const ExportedBlock block, machine_->export_block(*place));
    return DmabufRange{.fd = block.fd,
                       .base_address = place->base - block.offset_bytes,
                       .offset_bytes = address - place->base + block.offset_bytes,
                       .length_bytes = length_bytes,
                       .generation = info.generation};
  });
}

Result<IpcHandle> RocmDomain::ipc_handle(std::uint64_t address, std::uint64_t length_bytes) {
  return guarded(Stage::open, [&]() -> Result<IpcHandle> {
    HBMWIRE_TRY_ASSIGN(const auto place, place_of(address, length_bytes));
    if (!place || !place->exportable) {
      return tl::make_unexpected(
          make_error(Errc::invalid_argument, Stage::open,
                     "the range is not within one allocation of this GPU that "
                     "was made in this process",
                     gpu_.device.name));
    }
    IpcToken token;
    const int status =
        machine_->hsa().ipc_create(std::bit_cast<void*>(place->base), place->size_bytes, &token);
    if (status != kHsaSuccess)
      return tl::make_unexpected(
          hsa_error(Stage::open, "hsa_amd_ipc_memory_create", status, gpu_.device.name));
    IpcHandle handle =
        make_ipc_handle(gpu_.device, place->size_bytes, address - place->base, length_bytes);
    std::ranges::copy(token.bytes, handle.token.begin());
    return handle;
  });
}

/// Refuses memory of this process, which ROCr may map at its own address and which would then be
/// released twice. Checks the block's size, because the handle may come from an untrusted process.
Result<std::uint64_t> RocmDomain::open_block(const IpcHandle& handle) {
  IpcToken token;
  std::copy_n(handle.token.begin(), token.bytes.size(), token.bytes.begin());
  void* address = nullptr;
  const int status =
      machine_->hsa().ipc_attach(&token, handle.block_bytes, 1, &gpu_.agent, &address);
  if (status != kHsaSuccess)
    return tl::make_unexpected(
        hsa_error(Stage::open, "hsa_amd_ipc_memory_attach", status, gpu_.device.name));
  const auto base = std::bit_cast<std::uint64_t>(address);
  const auto check = [&]() -> Result<void> {
    HBMWIRE_TRY_ASSIGN(const auto place, machine_->place_of(base));
    const bool fits = place && place->gpu == &gpu_ && place->base == base &&
                      place->size_bytes == handle.block_bytes;
    if (fits && !place->exportable) return {};
    return tl::make_unexpected(
        make_error(Errc::invalid_argument, Stage::open,
                   "the IPC handle is of this process' own memory, or its block has another size",
                   gpu_.device.name));
  };
  const auto checked = check();
  if (checked) return base;
  destroy_or_log_hsa("hsa_amd_ipc_memory_detach",
                     [&] { return machine_->hsa().ipc_detach(address); });
  return tl::make_unexpected(checked.error());
}

Result<Allocation> RocmDomain::open_ipc(const IpcHandle& handle) {
  return guarded(Stage::open, [&]() -> Result<Allocation> {
    HBMWIRE_TRY(check_ipc_handle(handle, gpu_.device));
    HBMWIRE_TRY_ASSIGN(const std::uint64_t address,
                       opened_.open(handle, [&] { return open_block(handle); }));
    return Allocation(shared_from_this(), address, handle.length_bytes);
  });
}

}  // namespace

Result<std::shared_ptr<MemoryDomain>> open_gpu(std::shared_ptr<const Machine> machine,
                                               const Gpu& gpu) {
  if (gpu.device.size_bytes == 0) {
    Error error = make_error(Errc::not_supported, Stage::open, "ROCr shows no memory of this GPU",
                             gpu.device.name, Hint::no_rocm_device);
    name_reached_limit(error);
    return tl::make_unexpected(error);
  }
  return std::make_shared<RocmDomain>(std::move(machine), gpu);
}

}  // namespace hbmwire::memory::rocm

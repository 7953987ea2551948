// SPDX-License-Identifier: MIT
#include "memory/cuda/domain.hpp"

#include <algorithm>
#include <bit>

#include "base/guarded.hpp"
#include "base/guarded_copy.hpp"

namespace hbmwire::memory::cuda {

namespace {

// Bytes. Allocations promise this alignment; the driver's own is smaller.
constexpr std::uint64_t kAlignment = 4096;

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

Result<std::shared_ptr<CudaDomain>> CudaDomain::open(std::shared_ptr<const Machine> machine,
                                                     const Gpu& gpu) {
  ContextHandle context = nullptr;
  HBMWIRE_TRY(check(Stage::open, "cuDevicePrimaryCtxRetain",
                    machine->driver->primary_context_retain(&context, gpu.device), gpu.info.name));
  const Driver& driver = *machine->driver;
  return or_undo([&] { return std::make_shared<CudaDomain>(machine, gpu, context); },
                 [&] { driver.primary_context_release(gpu.device); });
}

CudaDomain::CudaDomain(std::shared_ptr<const Machine> machine, const Gpu& gpu,
                       ContextHandle context)
    : machine_(std::move(machine)),
      gpu_(gpu),
      driver_(*machine_->driver),
      context_(context),
      exports_(*machine_, gpu_),
      copies_(driver_, context_, gpu_.info.name) {}

CudaDomain::~CudaDomain() {
  copies_.close();  // before their context is released
  destroy_or_log_cuda("cuDevicePrimaryCtxRelease",
                      [&] { return driver_.primary_context_release(gpu_.device); });
}

// On an integrated GPU, memory of cuMemAlloc() has no dma-buf, but pinned host memory has.
Result<std::uint64_t> CudaDomain::allocate_raw(std::uint64_t bytes) {
  void* host = nullptr;
  DevicePointer address = 0;
  const int result =
      gpu_.integrated ? driver_.mem_alloc_host(&host, bytes) : driver_.mem_alloc(&address, bytes);
  HBMWIRE_TRY(check(Stage::allocate, gpu_.integrated ? "cuMemAllocHost" : "cuMemAlloc", result,
                    gpu_.info.name, Hint::cuda_memory_exhausted));
  return gpu_.integrated ? std::bit_cast<std::uint64_t>(host) : address;
}

int CudaDomain::free_raw(std::uint64_t address) const noexcept {
  return gpu_.integrated ? driver_.mem_free_host(std::bit_cast<void*>(address))
                         : driver_.mem_free(address);
}

/// Most allocations are aligned as they come; otherwise asks again, with room for the alignment.
Result<Block> CudaDomain::allocate_aligned(std::uint64_t size_bytes) {
  const std::uint64_t exact = round_up(size_bytes, kAlignment);
  HBMWIRE_TRY_ASSIGN(const std::uint64_t first, allocate_raw(exact));
  if (first % kAlignment == 0) {
    return Block{.raw = first,
                 .raw_bytes = exact,
                 .address = first,
                 .size_bytes = size_bytes,
                 .generation = 0};
  }
  const auto padded = allocate_raw(exact + kAlignment);
  destroy_or_log_cuda("cuMemFree", [&] { return free_raw(first); });
  if (!padded) return tl::make_unexpected(padded.error());
  return Block{.raw = *padded,
               .raw_bytes = exact + kAlignment,
               .address = round_up(*padded, kAlignment),
               .size_bytes = size_bytes,
               .generation = 0};
}

Result<Allocation> CudaDomain::allocate(std::uint64_t size_bytes) {
  return guarded(Stage::allocate, [&]() -> Result<Allocation> {
    if (size_bytes == 0) {
      return tl::make_unexpected(
          make_error(Errc::invalid_argument, Stage::allocate, "size 0", gpu_.info.name));
    }
    if (size_bytes > gpu_.info.size_bytes) {
      return tl::make_unexpected(make_error(Errc::exhausted, Stage::allocate,
                                            "more than the GPU's memory", gpu_.info.name,
                                            Hint::cuda_memory_exhausted));
    }
    const CurrentContext current(driver_, context_);
    HBMWIRE_TRY(current.status(Stage::allocate, gpu_.info.name));
    HBMWIRE_TRY_ASSIGN(Block block, allocate_aligned(size_bytes));
    // Learns the block's generation, and prepares the block for NICs.
    const auto prepare_block = [&]() -> Result<void> {
      HBMWIRE_TRY_ASSIGN(const auto memory, look_up(driver_, block.raw, 1));
      if (!memory) {
        return tl::make_unexpected(make_error(Errc::system, Stage::allocate,
                                              "the driver does not know what it allocated",
                                              gpu_.info.name));
      }
      block.generation = memory->generation;
      return exports_.sync_memops(*memory);
    };
    // Guarded here as well: the outer guard would lose the block if insert() threw.
    const auto inserted = guarded(Stage::allocate, [&]() -> Result<void> {
      HBMWIRE_TRY(prepare_block());
      blocks_.insert(block);
      return {};
    });
    if (!inserted) {
      destroy_or_log_cuda("cuMemFree", [&] { return free_raw(block.raw); });
      return tl::make_unexpected(inserted.error());
    }
    return Allocation(shared_from_this(), block.address, size_bytes);
  });
}

void CudaDomain::release(std::uint64_t address) noexcept {
  const auto current = CurrentContext::insist(driver_, context_);
  const auto close = [&](std::uint64_t base) {
    destroy_or_log_cuda("cuIpcCloseMemHandle", [&] { return driver_.ipc_close_handle(base); });
  };
  if (opened_.close(address, close)) return;
  // Forgets the block before it frees it: another thread may get the same address at once.
  const Block block = blocks_.take(address);
  destroy_or_log_cuda("cuMemFree", [&] { return free_raw(block.raw); });
}

Result<std::optional<Known>> CudaDomain::known(std::uint64_t address, std::uint64_t length_bytes) {
  if (const auto block = blocks_.around(address)) {
    if (!block->holds(address, 1)) return std::nullopt;  // only room for the alignment
    if (!block->holds(address, length_bytes)) {
      return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::probe,
                                            "the range leaves its allocation", gpu_.info.name));
    }
    Known known;
    known.base = block->address;
    known.bytes = block->size_bytes;
    known.generation = block->generation;
    known.device = gpu_.device;
    known.rdma_capable = true;
    known.is_ours = true;
    return known;
  }
  return look_up(driver_, address, length_bytes);
}

std::optional<AddressInfo> CudaDomain::find(std::uint64_t address, std::uint64_t length_bytes) {
  if (length_bytes == 0) return std::nullopt;
  const auto memory = known(address, length_bytes);
  if (!memory || !*memory || (*memory)->device != gpu_.device) return std::nullopt;
  return machine_->info_of(**memory);
}

Result<Known> CudaDomain::own(std::uint64_t address, std::uint64_t length_bytes, Stage stage) {
  const auto refuse = [&](const char* why) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, stage, why, gpu_.info.name));
  };
  if (length_bytes == 0) return refuse("size 0");
  const auto memory = known(address, length_bytes);
  if (!memory) {
    Error why = memory.error();
    why.stage = stage;
    return tl::make_unexpected(why);
  }
  if (!*memory || (*memory)->device != gpu_.device)
    return refuse("the range is not within one allocation of this GPU");
  return **memory;
}

Result<DmabufRange> CudaDomain::export_dmabuf(std::uint64_t address, std::uint64_t length_bytes) {
  return guarded(Stage::export_dmabuf, [&]() -> Result<DmabufRange> {
    const auto refuse = [&](Errc code, const char* why) {
      return tl::make_unexpected(make_error(code, Stage::export_dmabuf, why, gpu_.info.name));
    };
    HBMWIRE_TRY_ASSIGN(const Known memory, own(address, length_bytes, Stage::export_dmabuf));
    const auto info = machine_->info_of(memory);
    if (!info) return refuse(Errc::invalid_argument, "it is the host's, pinned for this GPU");
    if (info->refusal) return tl::make_unexpected(*info->refusal);
    if (info->path != Path::zero_copy)
      return refuse(Errc::not_supported,
                    "HBMWIRE_CUDA_DMABUF has this memory registered otherwise");
    const CurrentContext current(driver_, context_);
    HBMWIRE_TRY(current.status(Stage::export_dmabuf, gpu_.info.name));
    return exports_.get(memory, address, length_bytes);
  });
}

Result<void> CudaDomain::prepare(const Known& memory) {
  const CurrentContext current(driver_, context_);
  HBMWIRE_TRY(current.status(Stage::open, gpu_.info.name));
  return exports_.sync_memops(memory);
}

/// Whether the CPU copies this memory, and not the GPU's copy engine. On an integrated GPU the CPU
/// copies all memory except the application's own from cuMemAlloc().
bool CudaDomain::is_for_cpu(std::uint64_t address) {
  if (!gpu_.integrated) return false;
  if (blocks_.around(address)) return true;
  const auto memory = look_up(driver_, address, 1);
  return memory && *memory && (*memory)->of_host;
}

Result<PendingCopy> CudaDomain::start_copy_in(std::uint64_t address,
                                              std::span<const std::byte> from) {
  return guarded(Stage::copy, [&]() -> Result<PendingCopy> {
    if (!is_for_cpu(address)) return copies_.start_in(address, from);
    if (copy_to_application(std::bit_cast<std::byte*>(address), from)) return PendingCopy();
    return tl::make_unexpected(memory_gone(Stage::copy, gpu_.info.name));
  });
}

Result<PendingCopy> CudaDomain::start_copy_out(std::uint64_t address, std::span<std::byte> to) {
  return guarded(Stage::copy, [&]() -> Result<PendingCopy> {
    if (!is_for_cpu(address)) return copies_.start_out(address, to);
    if (copy_from_application(to, std::bit_cast<const std::byte*>(address))) return PendingCopy();
    return tl::make_unexpected(memory_gone(Stage::copy, gpu_.info.name));
  });
}

/// On an integrated GPU the CPU copies.
Result<void> CudaDomain::pin_host(std::span<std::byte> memory) {
  return guarded(Stage::copy, [&]() -> Result<void> {
    return gpu_.integrated ? MemoryDomain::pin_host(memory) : copies_.pin(memory);
  });
}

/// All GPUs of a process share one address space, so their engines copy between them. On an
/// integrated GPU the CPU copies.
bool CudaDomain::copies_from(const MemoryDomain& source) const noexcept {
  const auto* const other = dynamic_cast<const CudaDomain*>(&source);
  return other != nullptr && !gpu_.integrated && !other->gpu_.integrated;
}

Result<PendingCopy> CudaDomain::start_copy_from(MemoryDomain& source, std::uint64_t from,
                                                std::uint64_t to, std::uint64_t length_bytes) {
  return guarded(Stage::copy, [&]() -> Result<PendingCopy> {
    if (!copies_from(source)) return MemoryDomain::start_copy_from(source, from, to, length_bytes);
    return copies_.start_between(from, to, length_bytes);
  });
}

Result<bool> CudaDomain::flush() {
  return guarded(Stage::copy, [&]() -> Result<bool> {
    if (!gpu_.host_flush) return false;
    const CurrentContext current(driver_, context_);
    HBMWIRE_TRY(current.status(Stage::copy, gpu_.info.name));
    HBMWIRE_TRY(check(Stage::copy, "cuFlushGPUDirectRDMAWrites",
                      driver_.flush_writes(kFlushCurrentContext, kFlushToOwner), gpu_.info.name));
    return true;
  });
}

Result<IpcHandle> CudaDomain::ipc_handle(std::uint64_t address, std::uint64_t length_bytes) {
  return guarded(Stage::open, [&]() -> Result<IpcHandle> {
    HBMWIRE_TRY_ASSIGN(const Known memory, own(address, length_bytes, Stage::open));
    if (gpu_.integrated || memory.of_host || memory.managed || memory.is_virtual) {
      return tl::make_unexpected(
          make_error(Errc::not_supported, Stage::open,
                     "CUDA lets other processes open memory of cuMemAlloc only", gpu_.info.name));
    }
    const CurrentContext current(driver_, context_);
    HBMWIRE_TRY(current.status(Stage::open, gpu_.info.name));
    // The range that the token stands for may be larger than the memory that was given out.
    DevicePointer base = 0;
    std::size_t bytes = 0;
    HBMWIRE_TRY(check(Stage::open, "cuMemGetAddressRange",
                      driver_.mem_get_address_range(&base, &bytes, address), gpu_.info.name));
    IpcToken token;
    HBMWIRE_TRY(check(Stage::open, "cuIpcGetMemHandle", driver_.ipc_get_handle(&token, base),
                      gpu_.info.name));
    IpcHandle handle = make_ipc_handle(gpu_.info, bytes, address - base, length_bytes);
    handle.token = token.bytes;
    return handle;
  });
}

/// Checks the block's size, because the handle may come from an untrusted process.
Result<std::uint64_t> CudaDomain::open_block(const IpcHandle& handle) {
  DevicePointer opened = 0;
  const int result = driver_.ipc_open_handle(&opened, {handle.token}, kIpcLazyPeerAccess);
  if (result != kSuccess) {
    Error error = cuda_error(Stage::open, "cuIpcOpenMemHandle", result, gpu_.info.name);
    // These results mean a handle that cannot be opened here: the process that made it has ended;
    // or this process made it; or another context of this process has opened it.
    const auto refusals = {kMapFailed, kInvalidContext, kAlreadyMapped, kInvalidHandle};
    if (std::ranges::count(refusals, result) != 0) error.code = Errc::invalid_argument;
    return tl::make_unexpected(error);
  }
  DevicePointer base = 0;
  std::size_t bytes = 0;
  auto fits = check(Stage::open, "cuMemGetAddressRange",
                    driver_.mem_get_address_range(&base, &bytes, opened), gpu_.info.name);
  // The driver's mapping may extend on both sides.
  if (fits && (opened - base > bytes || bytes - (opened - base) < handle.block_bytes)) {
    fits = tl::make_unexpected(make_error(Errc::invalid_argument, Stage::open,
                                          "the IPC handle's block is larger than what it opened",
                                          gpu_.info.name));
  }
  if (fits) return opened;
  destroy_or_log_cuda("cuIpcCloseMemHandle", [&] { return driver_.ipc_close_handle(opened); });
  return tl::make_unexpected(fits.error());
}

Result<Allocation> CudaDomain::open_ipc(const IpcHandle& handle) {
  return guarded(Stage::open, [&]() -> Result<Allocation> {
    // true: opens another GPU's memory, too; kIpcLazyPeerAccess gives this GPU access if possible.
    HBMWIRE_TRY(check_ipc_handle(handle, gpu_.info, true));
    const CurrentContext current(driver_, context_);
    HBMWIRE_TRY(current.status(Stage::open, gpu_.info.name));
    HBMWIRE_TRY_ASSIGN(const std::uint64_t address,
                       opened_.open(handle, [&] { return open_block(handle); }));
    return Allocation(shared_from_this(), address, handle.length_bytes);
  });
}

}  // namespace hbmwire::memory::cuda

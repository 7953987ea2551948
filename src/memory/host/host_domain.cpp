// SPDX-License-Identifier: MIT
#include "memory/host/host_domain.hpp"

#include <bit>
#include <cstring>
#include <map>
#include <utility>

#include "base/guarded.hpp"
#include "base/guarded_copy.hpp"
#include "memory/generation.hpp"
#include "memory/host/sliced_copy.hpp"
#include "memory/ipc_blocks.hpp"

namespace hbmwire::memory::host {

namespace {

/// Memory of the CPU, of one kind. The CPU is its copy engine.
class HostDomain final : public MemoryDomain {
 public:
  HostDomain(const HostMemoryOptions& options, std::shared_ptr<Memory> memory)
      : options_(options), memory_(std::move(memory)), device_(memory_->describe(options)) {}

  [[nodiscard]] const DeviceInfo& device() const noexcept override { return device_; }

  [[nodiscard]] std::string_view copy_engine() const noexcept override { return "CPU"; }

  std::optional<AddressInfo> find(std::uint64_t address, std::uint64_t length_bytes) override;
  Result<Allocation> allocate(std::uint64_t size_bytes) override;

  Result<DmabufRange> export_dmabuf(std::uint64_t /*address*/,
                                    std::uint64_t /*length_bytes*/) override {
    return tl::make_unexpected(make_error(Errc::not_supported, Stage::export_dmabuf,
                                          "host memory has no dma-buf, it is registered by address",
                                          device_.name));
  }

  Result<void> advise(std::uint64_t address, std::uint64_t length_bytes, Advice advice) override;

  Result<PendingCopy> start_copy_in(std::uint64_t address,
                                    std::span<const std::byte> from) override {
    auto* const to = std::bit_cast<std::byte*>(address);
    if (is_ours(address)) {
      std::memcpy(to, from.data(), from.size());
    } else if (!copy_to_application(to, from)) {
      return tl::make_unexpected(memory_gone(Stage::copy, device_.name));
    }
    return PendingCopy();
  }

  Result<PendingCopy> start_copy_out(std::uint64_t address, std::span<std::byte> to) override {
    const auto* const from = std::bit_cast<const std::byte*>(address);
    if (is_ours(address)) {
      std::memcpy(to.data(), from, to.size());
    } else if (!copy_from_application(to, from)) {
      return tl::make_unexpected(memory_gone(Stage::copy, device_.name));
    }
    return PendingCopy();
  }

  /// Copies between any two host domains of the process, including memory of other processes that
  /// is open.
  [[nodiscard]] bool copies_from(const MemoryDomain& source) const noexcept override {
    return dynamic_cast<const HostDomain*>(&source) != nullptr;
  }

  Result<PendingCopy> start_copy_from(MemoryDomain& source, std::uint64_t from, std::uint64_t to,
                                      std::uint64_t length_bytes) override;

  [[nodiscard]] bool is_shareable() const noexcept override { return options_.shared; }

  Result<IpcHandle> ipc_handle(std::uint64_t address, std::uint64_t length_bytes) override;
  Result<Allocation> open_ipc(const IpcHandle& handle) override;

 private:
  // The pages are unmapped only after the tables have forgotten them, because another thread may
  // get the same address once they are unmapped. Dropping the result of take() unmaps them.
  void release(std::uint64_t address) noexcept override {
    if (opened_.close(address, [&](std::uint64_t base) { mapped_.erase(base); })) return;
    static_cast<void>(memory_->blocks.take(address));
  }

  /// Whether the library has mapped the memory at this address. Such memory stays as long as its
  /// Allocation; the application's may go at any time.
  [[nodiscard]] bool is_ours(std::uint64_t address) {
    return memory_->blocks.visit(address, [](auto, auto, const Block&) {}) ||
           opened_.holds(address);
  }

  HostMemoryOptions options_;
  std::shared_ptr<Memory> memory_;
  const DeviceInfo& device_;
  IpcBlocks opened_;
  std::map<std::uint64_t, Pages> mapped_;  // open blocks by address; under the lock of opened_
};

std::optional<AddressInfo> HostDomain::find(std::uint64_t address, std::uint64_t length_bytes) {
  if (length_bytes == 0 || address + (length_bytes - 1) < address) return std::nullopt;
  const auto found = memory_->find(address, length_bytes);
  if (!found) return std::nullopt;
  if (*found) return (*found)->device == &device_ ? *found : std::nullopt;
  // Memory that was not allocated here is ordinary memory of the process.
  if (options_ != HostMemoryOptions{}) return std::nullopt;
  return foreign(device_, address, length_bytes);
}

Result<Allocation> HostDomain::allocate(std::uint64_t size_bytes) {
  return guarded(Stage::allocate, [&]() -> Result<Allocation> {
    if (size_bytes == 0) {
      return tl::make_unexpected(
          make_error(Errc::invalid_argument, Stage::allocate, "size 0", device_.name));
    }
    HBMWIRE_TRY_ASSIGN(Pages pages, Pages::map(size_bytes, options_, device_.name));
    const auto address = std::bit_cast<std::uint64_t>(pages.address());
    memory_->blocks.insert(address, size_bytes,
                           {.generation = next_generation(),
                            .device = &device_,
                            .domain = weak_from_this(),
                            .pages = std::move(pages)});
    return Allocation(shared_from_this(), address, size_bytes);
  });
}

Result<PendingCopy> HostDomain::start_copy_from(MemoryDomain& source, std::uint64_t from,
                                                std::uint64_t to, std::uint64_t length_bytes) {
  return guarded(Stage::copy, [&]() -> Result<PendingCopy> {
    auto* const other = dynamic_cast<HostDomain*>(&source);
    if (other == nullptr) return MemoryDomain::start_copy_from(source, from, to, length_bytes);
    const bool is_guarded = !other->is_ours(from) || !is_ours(to);
    return PendingCopy(std::make_unique<SlicedCopy>(
        std::span(std::bit_cast<const std::byte*>(from), length_bytes),
        std::span(std::bit_cast<std::byte*>(to), length_bytes),
        SlicedCopy::Foreign{.from = other->opened_.holds(from), .to = opened_.holds(to)},
        is_guarded));
  });
}

Result<IpcHandle> HostDomain::ipc_handle(std::uint64_t address, std::uint64_t length_bytes) {
  return guarded(Stage::open, [&]() -> Result<IpcHandle> {
    const auto refuse = [&](Errc code, const char* why) {
      return tl::make_unexpected(make_error(code, Stage::open, why, device_.name));
    };
    if (!options_.shared)
      return refuse(Errc::not_supported,
                    "other processes can open only host memory that is `shared`");
    if (length_bytes == 0) return refuse(Errc::invalid_argument, "size 0");
    std::optional<IpcHandle> handle;
    memory_->blocks.visit(
        address, [&](std::uint64_t base, std::uint64_t size_bytes, const Block& block) {
          const std::uint64_t offset = address - base;
          if (block.device != &device_ || length_bytes > size_bytes - offset) return;
          handle = make_ipc_handle(device_, block.pages.size_bytes(), offset, length_bytes);
          std::memcpy(handle->token.data(), block.pages.name(), sizeof(SharedFileName));
        });
    if (handle) return *handle;
    return refuse(Errc::invalid_argument, "the range is not within one allocation of this memory");
  });
}

Result<Allocation> HostDomain::open_ipc(const IpcHandle& handle) {
  return guarded(Stage::open, [&]() -> Result<Allocation> {
    HBMWIRE_TRY(check_ipc_handle(handle, device_));
    SharedFileName name;
    static_assert(sizeof name <= IpcHandle::kTokenBytes);
    std::memcpy(&name, handle.token.data(), sizeof name);
    const auto map = [&]() -> Result<std::uint64_t> {
      HBMWIRE_TRY_ASSIGN(Pages pages, Pages::open(name, handle.block_bytes, device_.name));
      const auto base = std::bit_cast<std::uint64_t>(pages.address());
      mapped_.emplace(base, std::move(pages));
      return base;
    };
    HBMWIRE_TRY_ASSIGN(const std::uint64_t address, opened_.open(handle, map));
    return Allocation(shared_from_this(), address, handle.length_bytes);
  });
}

Result<void> HostDomain::advise(std::uint64_t address, std::uint64_t length_bytes, Advice advice) {
  return guarded(Stage::configure, [&]() -> Result<void> {
    if (find(address, length_bytes)) {
      return host::advise({address, length_bytes}, advice, page_bytes(options_), device_.name);
    }
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::allocate,
                                          "the range is not within one allocation of this memory",
                                          device_.name));
  });
}

}  // namespace

const DeviceInfo& Memory::describe(const HostMemoryOptions& options) {
  const std::scoped_lock lock(mutex_);
  const auto [entry, is_new] = devices_.try_emplace(options);
  DeviceInfo& device = entry->second;
  if (is_new) {
    device.name = name_of(options);
    device.page_bytes = page_bytes(options);
    device.numa_node = options.numa_node;
  }
  return device;
}

Result<std::optional<AddressInfo>> Memory::find(std::uint64_t address,
                                                std::uint64_t length_bytes) const {
  std::optional<AddressInfo> info;
  blocks.visit(address, [&](std::uint64_t base, std::uint64_t size_bytes, const Block& block) {
    info = AddressInfo{.device = block.device,
                       .base_address = base,
                       .size_bytes = size_bytes,
                       .generation = block.generation,
                       .path = Path::host,
                       .lifetime = Lifetime::allocation,
                       .refusal = {}};
  });
  if (info && length_bytes > info->size_bytes - (address - info->base_address)) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure,
                                          "the range leaves its allocation", info->device->name));
  }
  return info;
}

// Path and lifetime are also right for pages that a GPU's driver has pinned (cuMemAllocHost,
// hsa_amd_memory_lock): a registration refers to the pages at the addresses, and these pages stay
// as long as the mapping, whatever the driver's allocator does.
AddressInfo foreign(const DeviceInfo& device, std::uint64_t address, std::uint64_t length_bytes) {
  return {.device = &device,
          .base_address = address,
          .size_bytes = length_bytes,
          .generation = 0,
          .path = Path::host,
          .lifetime = Lifetime::address_space,
          .refusal = {}};
}

Result<std::shared_ptr<MemoryDomain>> open_domain(const HostMemoryOptions& options,
                                                  std::shared_ptr<Memory> memory) {
  HBMWIRE_TRY(check(options));
  return std::make_shared<HostDomain>(options, std::move(memory));
}

std::shared_ptr<MemoryDomain> make_domain() {
  return std::make_shared<HostDomain>(HostMemoryOptions{}, std::make_shared<Memory>());
}

}  // namespace hbmwire::memory::host

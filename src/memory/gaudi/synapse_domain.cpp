// SPDX-License-Identifier: MIT
#include <algorithm>
#include <mutex>
#include <optional>
#include <vector>

#include "base/forks.hpp"
#include "base/guarded.hpp"
#include "memory/gaudi/block_table.hpp"
#include "memory/gaudi/domains.hpp"
#include "memory/gaudi/synapse_engine.hpp"

namespace hbmwire::memory::gaudi {

namespace {

// Bytes. Allocations promise this alignment; SynapseAI's own is smaller.
constexpr std::uint64_t kAlignment = 4096;

/// The size of SynapseAI's pool on the card, roughly: SynapseAI may leave out the memory that it
/// uses itself.
std::uint64_t pool_bytes(const Synapse& synapse, const SynapseDeviceInfo& info) {
  std::uint64_t free = 0;
  std::uint64_t total = 0;
  const int status = synapse.device_get_memory_info(info.device_id, &free, &total);
  return status == kSynSuccess && total != 0 ? total : info.dram_size;
}

/// The addresses at which the pool may begin. Releases around 1.18 do not tell. With them it begins
/// where the device's memory begins, or where virtual addresses begin, above all HBM stacks. A
/// wrong guess does no harm: the driver exports only from the exact base of a mapping, and only
/// ranges that lie in it.
std::vector<std::uint64_t> pool_bases(const SynapseDeviceInfo& info) {
  constexpr std::uint64_t kStackBytes = 16ULL << 30;
  if (info.global_hbm_base != 0) return {info.global_hbm_base};
  return {info.dram_base, info.dram_base + round_up(info.dram_size, kStackBytes)};
}

/// A card that SynapseAI drives. All its allocations are in one mapped pool, which is exported
/// once.
class SynapseDomain final : public MemoryDomain {
 public:
  static Result<std::shared_ptr<MemoryDomain>> open(const Vendor& vendor,
                                                    const std::string& pci_address);

  SynapseDomain(std::shared_ptr<Synapse> synapse, const Vendor& vendor)
      : synapse_(std::move(synapse)), driver_(vendor.driver) {}

  SynapseDomain(const SynapseDomain&) = delete;
  SynapseDomain& operator=(const SynapseDomain&) = delete;
  ~SynapseDomain() override;

  [[nodiscard]] const DeviceInfo& device() const noexcept override { return device_; }

  [[nodiscard]] std::string_view copy_engine() const noexcept override { return "SynapseAI DMA"; }

  std::optional<AddressInfo> find(std::uint64_t address, std::uint64_t length_bytes) override;
  Result<Allocation> allocate(std::uint64_t size_bytes) override;
  Result<DmabufRange> export_dmabuf(std::uint64_t address, std::uint64_t length_bytes) override;
  Result<PendingCopy> start_copy_in(std::uint64_t address,
                                    std::span<const std::byte> from) override;
  Result<PendingCopy> start_copy_out(std::uint64_t address, std::span<std::byte> to) override;

  Result<void> pin_host(std::span<std::byte> memory) override {
    return guarded(Stage::copy, [&]() -> Result<void> { return engine_->pin(memory); });
  }

  void unpin_host(std::span<std::byte> memory) noexcept override {
    if (!made_.is_inherited()) engine_->unpin(memory);
  }

  [[nodiscard]] bool copies_from(const MemoryDomain& source) const noexcept override;
  Result<PendingCopy> start_copy_from(MemoryDomain& source, std::uint64_t from, std::uint64_t to,
                                      std::uint64_t length_bytes) override;

 private:
  Result<void> acquire(const std::string& pci_address);
  Result<void> acquire_new(const std::string& pci_address);
  [[nodiscard]] bool is_applications(std::uint64_t address, std::uint64_t length_bytes) const;
  Result<std::shared_ptr<const Fd>> pool_of(std::uint64_t address, std::uint64_t length_bytes);
  void release(std::uint64_t address) noexcept override;

  std::shared_ptr<Synapse> synapse_;
  std::shared_ptr<const CardDriver> driver_;
  DeviceInfo device_;
  std::optional<Error> refusal_;
  SynapseDeviceInfo info_{};
  bool acquired_here_ = false;  // not by the application or another domain
  bool counted_ = false;        // among Synapse::card_users
  MadeHere made_;
  std::uint64_t pool_bytes_ = 0;

  BlockTable blocks_;  // by aligned address; the handle is the address from SynapseAI

  std::mutex pool_mutex_;  // guards the members below
  std::weak_ptr<const Fd> pool_;
  std::uint64_t exported_base_ = 0;
  std::uint64_t exported_bytes_ = 0;

  std::optional<SynapseEngine> engine_;
};

Result<std::shared_ptr<MemoryDomain>> SynapseDomain::open(const Vendor& vendor,
                                                          const std::string& pci_address) {
  HBMWIRE_TRY_ASSIGN(auto synapse, Synapse::load());
  HBMWIRE_TRY(synapse->make_ready());
  auto domain = std::make_shared<SynapseDomain>(std::move(synapse), vendor);
  HBMWIRE_TRY(domain->acquire(pci_address));
  const int fd = static_cast<int>(domain->info_.fd);
  HBMWIRE_TRY_ASSIGN(domain->device_, describe_card(*vendor.driver, fd, "SynapseAI"));
  // A first-generation Gaudi tells no page size, as it has no device virtual memory.
  if (domain->device_.page_bytes == 0) domain->device_.page_bytes = kExportPage;
  domain->refusal_ = vendor.refusal(domain->device_.name);
  domain->pool_bytes_ = pool_bytes(*domain->synapse_, domain->info_);
  domain->engine_.emplace(domain->synapse_, domain->info_.device_id, domain->device_.name);
  return domain;
}

SynapseDomain::~SynapseDomain() {
  engine_.reset();
  if (!counted_ || made_.is_inherited()) return;
  // Domains of other contexts may have the card, too.
  const std::scoped_lock lock(synapse_->card_mutex);
  if (--synapse_->card_users != 0) return;
  destroy_or_log_synapse("synDeviceRelease",
                         [&] { return synapse_->device_release(info_.device_id); });
}

Result<void> SynapseDomain::acquire(const std::string& pci_address) {
  const std::scoped_lock lock(synapse_->card_mutex);
  // Uses the application's own card, or another context's, if there is one: SynapseAI would refuse
  // to acquire a second one.
  if (synapse_->device_get_info(kCurrentDevice, &info_) != kSynSuccess)
    return acquire_new(pci_address);
  const auto current = driver_->pci_address(static_cast<int>(info_.fd));
  if (!pci_address.empty() && (!current || *current != pci_address)) {
    return tl::make_unexpected(make_error(Errc::busy, Stage::open,
                                          "SynapseAI drives another card in this process already",
                                          pci_address, Hint::synapse_one_card));
  }
  // Without users the card is the application's, which releases it itself.
  counted_ = synapse_->card_users != 0;
  if (counted_) ++synapse_->card_users;
  return {};
}

Result<void> SynapseDomain::acquire_new(const std::string& pci_address) {
  std::uint32_t count = 0;
  if (synapse_->device_get_count(&count) != kSynSuccess || count == 0) {
    return tl::make_unexpected(make_error(Errc::not_found, Stage::probe, "no Gaudi card found", {},
                                          Hint::no_gaudi_device));
  }
  std::uint32_t id = 0;
  const int status =
      synapse_->device_acquire(&id, pci_address.empty() ? nullptr : pci_address.c_str());
  if (status != kSynSuccess) {
    // Cards exist, so the requested one, or all of them, must be taken.
    Error error = synapse_error(Stage::open, "synDeviceAcquire", status,
                                pci_address.empty() ? "gaudi" : pci_address, Hint::gaudi_busy);
    error.code = Errc::busy;
    return tl::make_unexpected(error);
  }
  acquired_here_ = counted_ = true;
  synapse_->card_users = 1;
  const int asked = synapse_->device_get_info(id, &info_);
  // The destructor needs the id, which the query may have overwritten.
  info_.device_id = id;
  if (asked == kSynSuccess) return {};
  return tl::make_unexpected(synapse_error(Stage::open, "synDeviceGetInfoV2", asked, pci_address));
}

/// If the application has acquired the card, all of the pool that was not allocated here may be its
/// memory: SynapseAI cannot be asked what is allocated.
bool SynapseDomain::is_applications(std::uint64_t address, std::uint64_t length_bytes) const {
  if (acquired_here_ || length_bytes == 0) return false;
  const auto bases = pool_bases(info_);
  return std::ranges::any_of(bases, [&](std::uint64_t base) {
    const std::uint64_t offset = address - base;
    return address >= base && offset < pool_bytes_ && length_bytes <= pool_bytes_ - offset;
  });
}

std::optional<AddressInfo> SynapseDomain::find(std::uint64_t address, std::uint64_t length_bytes) {
  AddressInfo info{.device = &device_,
                   .base_address = address,
                   .size_bytes = length_bytes,
                   .generation = 0,
                   .path = Path::zero_copy,
                   .refusal = refusal_};
  if (const auto block = blocks_.find(address, length_bytes)) {
    info.base_address = block->address;
    info.size_bytes = block->size_bytes;
    info.generation = block->generation;
    info.lifetime = Lifetime::allocation;
    return info;
  }
  // Nothing reports when the application frees its memory. An export that is kept would prevent
  // SynapseAI from releasing its pool.
  if (!is_applications(address, length_bytes)) return std::nullopt;
  return info;
}

Result<Allocation> SynapseDomain::allocate(std::uint64_t size_bytes) {
  return guarded(Stage::allocate, [&]() -> Result<Allocation> {
    HBMWIRE_TRY(check_allocation(size_bytes, device_));
    std::uint64_t raw = 0;
    // 0, 0: no wanted address, no flags.
    const int status =
        synapse_->device_malloc(info_.device_id, size_bytes + kAlignment - 1, 0, 0, &raw);
    if (status != kSynSuccess) {
      return tl::make_unexpected(synapse_error(Stage::allocate, "synDeviceMalloc", status,
                                               device_.name, Hint::device_memory_exhausted));
    }
    const std::uint64_t address = round_up(raw, kAlignment);
    or_undo([&] { blocks_.insert(address, size_bytes, raw); },
            [&] { synapse_->device_free(info_.device_id, raw, 0); });
    return Allocation(shared_from_this(), address, size_bytes);
  });
}

void SynapseDomain::release(std::uint64_t address) noexcept {
  const Block block = blocks_.take(address);
  destroy_or_log_synapse("synDeviceFree",
                         [&] { return synapse_->device_free(info_.device_id, block.handle, 0); });
}

/// The dma-buf of the pool, large enough for the range. Tries to export the whole pool first, and
/// then just the part up to the range's end. The offset is always 0 (kernels up to 6.6 ignore
/// another one). Call it with the lock held.
Result<std::shared_ptr<const Fd>> SynapseDomain::pool_of(std::uint64_t address,
                                                         std::uint64_t length_bytes) {
  if (auto fd = pool_.lock();
      fd && address >= exported_base_ && address - exported_base_ + length_bytes <= exported_bytes_)
    return fd;
  Error reason = make_error(Errc::not_supported, Stage::export_dmabuf,
                            "the allocation lies outside the known memory pool", device_.name,
                            Hint::synapse_pool_base);
  for (const std::uint64_t base : pool_bases(info_)) {
    if (address < base) continue;
    const std::uint64_t needed = address - base + length_bytes;
    for (const std::uint64_t size : {info_.dram_size, pool_bytes_ / kExportPage * kExportPage,
                                     round_up(needed, kExportPage)}) {
      if (size < needed || size % kExportPage != 0) continue;
      auto exported = driver_->export_mapping(static_cast<int>(info_.fd), base, size, device_.name);
      if (!exported) {
        reason = exported.error();
        if (info_.global_hbm_base == 0) reason.hint = Hint::synapse_pool_base;
        continue;
      }
      auto fd = std::make_shared<const Fd>(std::move(*exported));
      pool_ = fd;
      exported_base_ = base;
      exported_bytes_ = size;
      return fd;
    }
  }
  return tl::make_unexpected(reason);
}

Result<DmabufRange> SynapseDomain::export_dmabuf(std::uint64_t address,
                                                 std::uint64_t length_bytes) {
  return guarded(Stage::export_dmabuf, [&]() -> Result<DmabufRange> {
    if (refusal_) return tl::make_unexpected(*refusal_);
    const auto info = find(address, length_bytes);
    if (!info) return tl::make_unexpected(outside_error(device_));
    const std::scoped_lock lock(pool_mutex_);
    HBMWIRE_TRY_ASSIGN(auto fd, pool_of(address, length_bytes));
    return DmabufRange{.fd = std::move(fd),
                       .base_address = exported_base_,
                       .offset_bytes = address - exported_base_,
                       .length_bytes = length_bytes,
                       .generation = info->generation};
  });
}

Result<PendingCopy> SynapseDomain::start_copy_in(std::uint64_t address,
                                                 std::span<const std::byte> from) {
  return guarded(Stage::copy, [&]() -> Result<PendingCopy> {
    return engine_->start_in(address, from, shared_from_this());
  });
}

Result<PendingCopy> SynapseDomain::start_copy_out(std::uint64_t address, std::span<std::byte> to) {
  return guarded(Stage::copy, [&]() -> Result<PendingCopy> {
    return engine_->start_out(address, to, shared_from_this());
  });
}

/// SynapseAI has one card in a process, and cannot copy between two.
bool SynapseDomain::copies_from(const MemoryDomain& source) const noexcept {
  const auto* const other = dynamic_cast<const SynapseDomain*>(&source);
  return other != nullptr && other->info_.device_id == info_.device_id;
}

Result<PendingCopy> SynapseDomain::start_copy_from(MemoryDomain& source, std::uint64_t from,
                                                   std::uint64_t to, std::uint64_t length_bytes) {
  return guarded(Stage::copy, [&]() -> Result<PendingCopy> {
    if (!copies_from(source)) return MemoryDomain::start_copy_from(source, from, to, length_bytes);
    return engine_->start_within(from, to, length_bytes, shared_from_this());
  });
}

}  // namespace

Result<std::shared_ptr<MemoryDomain>> open_with_synapse(const Vendor& vendor,
                                                        const std::string& pci_address) {
  return SynapseDomain::open(vendor, pci_address);
}

std::vector<ApplicationPool> application_pools(const Vendor& vendor, const Synapse& synapse) {
  SynapseDeviceInfo info{};
  if (synapse.device_get_info(kCurrentDevice, &info) != kSynSuccess) return {};
  const auto address = vendor.driver->pci_address(static_cast<int>(info.fd));
  if (!address) return {};
  std::vector<ApplicationPool> pools;
  for (const std::uint64_t base : pool_bases(info))
    pools.push_back({*address, base, pool_bytes(synapse, info)});
  return pools;
}

}  // namespace hbmwire::memory::gaudi

// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>
#include <mutex>

#include "memory/gaudi/block_table.hpp"
#include "memory/gaudi/hl_thunk.hpp"
#include "memory/gaudi/synapse.hpp"
#include "memory/gaudi/thunk_domain.hpp"

namespace hbmwire::memory::gaudi {

namespace {

// Through this much pinned host memory go all copies: large enough that a DMA job's start-up is
// lost in it.
constexpr std::uint64_t kBounceBytes = 8ULL << 20;
// Allocations promise this alignment; SynapseAI's own is smaller.
constexpr std::uint64_t kAlignment = 4096;

/// A card that SynapseAI drives. All its allocations lie in one mapped pool, which is exported
/// once.
class SynapseDomain final : public MemoryDomain {
 public:
  static Result<std::shared_ptr<MemoryDomain>> open(const std::string& card);

  SynapseDomain(std::shared_ptr<Synapse> synapse, HlThunk thunk)
      : synapse_(std::move(synapse)), thunk_(std::move(thunk)) {}

  SynapseDomain(const SynapseDomain&) = delete;
  SynapseDomain& operator=(const SynapseDomain&) = delete;
  ~SynapseDomain() override;

  [[nodiscard]] const DeviceInfo& device() const noexcept override { return device_; }

  [[nodiscard]] std::string_view copy_engine() const noexcept override { return "SynapseAI DMA"; }

  std::optional<AddressInfo> find(std::uint64_t address, std::uint64_t length_bytes) override {
    return blocks_.info(address, length_bytes);
  }

  Result<Allocation> allocate(std::uint64_t size_bytes) override;
  Result<DmabufRange> export_dmabuf(std::uint64_t address, std::uint64_t length_bytes) override;
  Result<PendingCopy> start_copy_in(std::uint64_t address,
                                    std::span<const std::byte> from) override;
  Result<PendingCopy> start_copy_out(std::uint64_t address, std::span<std::byte> to) override;

 private:
  Result<void> acquire(const std::string& card);
  Result<void> describe_device();
  Result<void> make_copy_engine();
  Result<std::shared_ptr<const Fd>> pool(std::uint64_t needed_bytes);
  Result<void> copy(std::uint64_t from, std::uint64_t to, std::uint64_t size, int direction);
  void release(std::uint64_t address) noexcept override;

  std::shared_ptr<Synapse> synapse_;
  HlThunk thunk_;
  DeviceInfo device_;
  SynapseDeviceInfo info_{};
  bool acquired_here_ = false;

  BlockTable blocks_{device_};  // by aligned address; a handle is the address as SynapseAI gave it
  std::weak_ptr<const Fd> pool_;  // with blocks_.mutex(), as what follows
  std::uint64_t pool_base_ = 0;
  std::uint64_t pool_bytes_ = 0;

  std::mutex copy_mutex_;  // one stream, one bounce buffer
  SynapseStream stream_ = nullptr;
  void* bounce_ = nullptr;
};

Result<std::shared_ptr<MemoryDomain>> SynapseDomain::open(const std::string& card) {
  // SynapseAI first: where it is missing the caller tries hl-thunk alone, and that message would be
  // the wrong one.
  HBMWIRE_TRY_ASSIGN(auto synapse, Synapse::shared());
  HBMWIRE_TRY_ASSIGN(HlThunk thunk, HlThunk::load());
  auto domain = std::make_shared<SynapseDomain>(std::move(synapse), std::move(thunk));
  HBMWIRE_TRY(domain->acquire(card));
  HBMWIRE_TRY(domain->describe_device());
  HBMWIRE_TRY(domain->make_copy_engine());
  return domain;
}

SynapseDomain::~SynapseDomain() {
  const std::uint32_t id = info_.device_id;
  if (stream_ != nullptr)
    destroy_or_log_synapse("synStreamDestroy", [&] { return synapse_->stream_destroy(stream_); });
  if (bounce_ != nullptr)
    destroy_or_log_synapse("synHostFree", [&] { return synapse_->host_free(id, bounce_, 0); });
  if (acquired_here_)
    destroy_or_log_synapse("synDeviceRelease", [&] { return synapse_->device_release(id); });
}

Result<void> SynapseDomain::acquire(const std::string& card) {
  HBMWIRE_TRY_ASSIGN(const std::string bus_id, resolve_card(card));
  // The application's own card, if it has one: a second open would be refused.
  if (synapse_->device_get_info(kCurrentDevice, &info_) == kSynSuccess) {
    char address[16] = {};
    const bool known =
        thunk_.get_pci_bus_id_from_fd(static_cast<int>(info_.fd), address, sizeof address - 1) >= 0;
    if (bus_id.empty() || (known && bus_id == address)) return {};
    return tl::make_unexpected(make_error(Errc::busy, Stage::open,
                                          "SynapseAI drives another card in this process already",
                                          bus_id, Hint::synapse_one_card));
  }
  std::uint32_t count = 0;
  if (synapse_->device_get_count(&count) != kSynSuccess || count == 0) {
    return tl::make_unexpected(make_error(Errc::not_found, Stage::probe, "no Gaudi card found", {},
                                          Hint::no_gaudi_device));
  }
  std::uint32_t id = 0;
  const int status = synapse_->device_acquire(&id, bus_id.empty() ? nullptr : bus_id.c_str());
  if (status != kSynSuccess) {
    // With cards there, what is left is that they, or this one, are taken.
    Error error = synapse_error(Stage::open, "synDeviceAcquire", status,
                                bus_id.empty() ? "gaudi" : bus_id, Hint::gaudi_busy);
    error.code = Errc::busy;
    return tl::make_unexpected(error);
  }
  info_.device_id = id;
  acquired_here_ = true;
  if (const int asked = synapse_->device_get_info(id, &info_); asked != kSynSuccess) {
    info_.device_id =
        id;  // a failed query may have left anything there, and the destructor needs it
    return tl::make_unexpected(synapse_error(Stage::open, "synDeviceGetInfoV2", asked, bus_id));
  }
  info_.device_id = id;
  return {};
}

Result<void> SynapseDomain::describe_device() {
  const int fd = static_cast<int>(info_.fd);
  char address[16] = {};
  HwIpInfo hardware{};
  int result = thunk_.get_pci_bus_id_from_fd(fd, address, sizeof address - 1);
  if (result >= 0) result = thunk_.get_hw_ip_info(fd, &hardware);
  if (result < 0) {
    return tl::make_unexpected(
        system_error(Stage::open, "hlthunk_get_hw_ip_info", errno_of(result), "gaudi"));
  }
  device_.type = MemoryType::gaudi;
  device_.pci_address = address;
  device_.name = std::string(model_name(hardware.device_id)) + " " + address;
  device_.driven_by = "SynapseAI";
  device_.size_bytes = info_.dram_size;
  device_.page_bytes = hardware.dram_page_size != 0 ? hardware.dram_page_size : kExportPage;
  device_.numa_node = numa_node_of(device_.pci_address);
  return {};
}

Result<void> SynapseDomain::make_copy_engine() {
  if (const int status = synapse_->stream_create(&stream_, info_.device_id, 0);
      status != kSynSuccess) {
    stream_ = nullptr;
    return tl::make_unexpected(
        synapse_error(Stage::open, "synStreamCreateGeneric", status, device_.name));
  }
  if (const int status = synapse_->host_malloc(info_.device_id, kBounceBytes, 0, &bounce_);
      status != kSynSuccess) {
    bounce_ = nullptr;
    return tl::make_unexpected(synapse_error(Stage::open, "synHostMalloc", status, device_.name));
  }
  return {};
}

Result<Allocation> SynapseDomain::allocate(std::uint64_t size_bytes) {
  HBMWIRE_TRY(blocks_.check_size(size_bytes));
  std::uint64_t raw = 0;
  const int status =
      synapse_->device_malloc(info_.device_id, size_bytes + kAlignment - 1, 0, 0, &raw);
  if (status != kSynSuccess) {
    return tl::make_unexpected(synapse_error(Stage::allocate, "synDeviceMalloc", status,
                                             device_.name, Hint::device_memory_exhausted));
  }
  const std::uint64_t address = round_up(raw, kAlignment);
  blocks_.insert(address, size_bytes, raw);
  return Allocation(shared_from_this(), address, size_bytes);
}

void SynapseDomain::release(std::uint64_t address) noexcept {
  const Block block = blocks_.take(address);
  destroy_or_log_synapse("synDeviceFree",
                         [&] { return synapse_->device_free(info_.device_id, block.handle, 0); });
}

Result<std::shared_ptr<const Fd>> SynapseDomain::pool(std::uint64_t needed_bytes) {
  if (auto fd = pool_.lock(); fd && needed_bytes <= pool_bytes_) return fd;
  std::uint64_t free = 0;
  std::uint64_t total = 0;
  if (synapse_->device_get_memory_info(info_.device_id, &free, &total) != kSynSuccess) total = 0;
  // SynapseAI tells the pool's size only roughly (its own use is left out, or not): the whole
  // first, else what is needed now, which is always inside. Offset 0 in every case (kernels up
  // to 6.6 ignore another).
  Error reason = make_error(Errc::not_supported, Stage::export_dmabuf, "no memory pool",
                            device_.name, Hint::synapse_pool_base);
  for (const std::uint64_t size :
       {info_.dram_size, total / kExportPage * kExportPage, round_up(needed_bytes, kExportPage)}) {
    if (size < needed_bytes || size % kExportPage != 0) continue;
    auto exported =
        export_mapping(thunk_, static_cast<int>(info_.fd), pool_base_, size, device_.name);
    if (!exported) {
      reason = exported.error();
      continue;
    }
    auto fd = std::make_shared<const Fd>(Fd{*exported});
    pool_ = fd;
    pool_bytes_ = size;
    return fd;
  }
  return tl::make_unexpected(reason);
}

Result<DmabufRange> SynapseDomain::export_dmabuf(std::uint64_t address,
                                                 std::uint64_t length_bytes) {
  const std::scoped_lock lock(blocks_.mutex());
  HBMWIRE_TRY_ASSIGN(const Block* block, blocks_.find(address, length_bytes));
  // Releases before the field was filled: the pool begins where the device's memory does, or the
  // export says no.
  pool_base_ = info_.global_hbm_base != 0 ? info_.global_hbm_base : info_.dram_base;
  if (address < pool_base_) {
    return tl::make_unexpected(make_error(Errc::not_supported, Stage::export_dmabuf,
                                          "the allocation lies outside the known memory pool",
                                          device_.name, Hint::synapse_pool_base));
  }
  HBMWIRE_TRY_ASSIGN(auto fd, pool(address - pool_base_ + length_bytes));
  return DmabufRange{.fd = std::move(fd),
                     .base_address = pool_base_,
                     .offset_bytes = address - pool_base_,
                     .length_bytes = length_bytes,
                     .generation = block->generation};
}

Result<void> SynapseDomain::copy(std::uint64_t from, std::uint64_t to, std::uint64_t size,
                                 int direction) {
  if (const int status = synapse_->mem_copy_async(stream_, from, size, to, direction);
      status != kSynSuccess) {
    return tl::make_unexpected(synapse_error(Stage::copy, "synMemCopyAsync", status, device_.name));
  }
  if (const int status = synapse_->stream_synchronize(stream_); status != kSynSuccess) {
    return tl::make_unexpected(
        synapse_error(Stage::copy, "synStreamSynchronize", status, device_.name));
  }
  return {};
}

Result<PendingCopy> SynapseDomain::start_copy_in(std::uint64_t address,
                                                 std::span<const std::byte> from) {
  const std::scoped_lock lock(copy_mutex_);
  for (std::uint64_t done = 0; done < from.size(); done += kBounceBytes) {
    const std::uint64_t size = std::min<std::uint64_t>(kBounceBytes, from.size() - done);
    std::memcpy(bounce_, from.data() + done, size);
    HBMWIRE_TRY(copy(std::bit_cast<std::uint64_t>(bounce_), address + done, size, kHostToDram));
  }
  return PendingCopy();
}

Result<PendingCopy> SynapseDomain::start_copy_out(std::uint64_t address, std::span<std::byte> to) {
  const std::scoped_lock lock(copy_mutex_);
  for (std::uint64_t done = 0; done < to.size(); done += kBounceBytes) {
    const std::uint64_t size = std::min<std::uint64_t>(kBounceBytes, to.size() - done);
    HBMWIRE_TRY(copy(address + done, std::bit_cast<std::uint64_t>(bounce_), size, kDramToHost));
    std::memcpy(to.data() + done, bounce_, size);
  }
  return PendingCopy();
}

}  // namespace

Result<std::shared_ptr<MemoryDomain>> open_with_synapse(const std::string& card) {
  return SynapseDomain::open(card);
}

}  // namespace hbmwire::memory::gaudi

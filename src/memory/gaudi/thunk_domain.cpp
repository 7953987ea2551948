// SPDX-License-Identifier: MIT
#include <cerrno>

#include "base/destroy.hpp"
#include "base/forks.hpp"
#include "memory/gaudi/block_pool.hpp"
#include "memory/gaudi/domains.hpp"

namespace hbmwire::memory::gaudi {

namespace {

/// A card's fd, and what the driver does by it.
class OwnedCard final : public BlockSource {
 public:
  OwnedCard(std::shared_ptr<const HlThunk> thunk, int fd) : thunk_(std::move(thunk)), fd_(fd) {}

  OwnedCard(const OwnedCard&) = delete;
  OwnedCard& operator=(const OwnedCard&) = delete;

  ~OwnedCard() override {
    if (const int result = thunk_->close(fd_); result < 0)
      log_warning("hlthunk_close", "failed", errno_of(result));
  }

  [[nodiscard]] int fd() const noexcept { return fd_; }

  void set_name(std::string name) { name_ = std::move(name); }

  Result<DriverBlock> take_block(std::uint64_t size_bytes) override;
  void give_block_back(const DriverBlock& block) noexcept override;

  Result<Fd> export_block(const DriverBlock& block) override {
    return export_mapping(*thunk_, fd_, block.address, block.size_bytes, name_);
  }

 private:
  void free(std::uint64_t handle) noexcept {
    destroy_or_log(
        "hlthunk_device_memory_free", [&] { return thunk_->device_memory_free(fd_, handle); },
        errno_of);
  }

  std::shared_ptr<const HlThunk> thunk_;
  int fd_;
  std::string name_;
  MadeHere made_;
};

Result<DriverBlock> OwnedCard::take_block(std::uint64_t size_bytes) {
  // Page size 0: the default. Neither contiguous nor shared is needed for an export, and both are
  // scarcer.
  errno = 0;
  const std::uint64_t handle = thunk_->device_memory_alloc(fd_, size_bytes, 0, false, false);
  if (handle == 0) {
    return tl::make_unexpected(system_error(Stage::allocate, "hlthunk_device_memory_alloc",
                                            errno != 0 ? errno : ENOMEM, name_,
                                            Hint::device_memory_exhausted));
  }
  errno = 0;
  const std::uint64_t address = thunk_->device_memory_map(fd_, handle, 0);
  if (address == 0) {
    const Error error = system_error(Stage::allocate, "hlthunk_device_memory_map",
                                     errno != 0 ? errno : ENOMEM, name_);
    free(handle);
    return tl::make_unexpected(error);
  }
  return DriverBlock{.address = address, .size_bytes = size_bytes, .handle = handle};
}

void OwnedCard::give_block_back(const DriverBlock& block) noexcept {
  if (made_.is_inherited())
    return;  // the driver knows a card's owner by the open file: both have it
  // Unmapped before it is freed: the driver refuses to free what is mapped.
  destroy_or_log(
      "hlthunk_memory_unmap", [&] { return thunk_->memory_unmap(fd_, block.address); }, errno_of);
  free(block.handle);
}

/// A card that this process owns through hl-thunk. It has no copy engine that could be driven
/// portably (raw command submission differs by generation and is closed while SynapseAI runs), so
/// that contents move by NIC loopback.
class ThunkDomain final : public DomainWithoutEngine {
 public:
  ThunkDomain(const Vendor& vendor, std::unique_ptr<OwnedCard> card, DeviceInfo device)
      : device_(std::move(device)),
        refusal_(vendor.refusal(device_.name)),
        card_(std::move(card)),
        pool_(*card_, device_) {}

  [[nodiscard]] const DeviceInfo& device() const noexcept override { return device_; }

  std::optional<AddressInfo> find(std::uint64_t address, std::uint64_t length_bytes) override {
    auto info = pool_.find(address, length_bytes);
    if (info) info->refusal = refusal_;
    return info;
  }

  Result<Allocation> allocate(std::uint64_t size_bytes) override {
    HBMWIRE_TRY_ASSIGN(const std::uint64_t address, pool_.allocate(size_bytes));
    return Allocation(shared_from_this(), address, size_bytes);
  }

  Result<DmabufRange> export_dmabuf(std::uint64_t address, std::uint64_t length_bytes) override {
    if (refusal_) return tl::make_unexpected(*refusal_);
    return pool_.export_range(address, length_bytes);
  }

 private:
  void release(std::uint64_t address) noexcept override { pool_.free(address); }

  DeviceInfo device_;
  std::optional<Error> refusal_;
  std::unique_ptr<OwnedCard> card_;
  BlockPool pool_;
};

Error open_error(int error_number, const std::string& card) {
  Hint hint = Hint::none;
  if (error_number == EBUSY) hint = Hint::gaudi_busy;
  if (error_number == EAGAIN) hint = Hint::gaudi_resetting;
  if (error_number == ENOENT || error_number == ENODEV || error_number == ENXIO ||
      error_number == EINVAL) {
    const bool any = card.empty();
    return make_error(Errc::not_found, Stage::probe,
                      any ? "no Gaudi card found" : "no such Gaudi card", card,
                      any ? Hint::no_gaudi_device : Hint::no_such_gaudi_device);
  }
  return system_error(Stage::open, "hlthunk_open", error_number, card.empty() ? "gaudi" : card,
                      hint);
}

}  // namespace

Error DomainWithoutEngine::no_engine() const noexcept {
  return make_error(Errc::not_supported, Stage::copy, "hl-thunk offers no copy engine",
                    device().name);
}

Result<std::shared_ptr<MemoryDomain>> open_with_thunk(const Vendor& vendor,
                                                      const std::string& pci_address) {
  errno = 0;
  const int fd = vendor.thunk->open(kDontCare, pci_address.empty() ? nullptr : pci_address.c_str());
  if (fd < 0) return tl::make_unexpected(open_error(errno_of(fd), pci_address));
  auto card = std::make_unique<OwnedCard>(vendor.thunk, fd);
  HBMWIRE_TRY_ASSIGN(DeviceInfo device, describe_card(*vendor.thunk, fd, "hl-thunk"));
  if (device.page_bytes == 0) {
    return tl::make_unexpected(make_error(Errc::not_supported, Stage::open,
                                          "this card has no device virtual memory", device.name,
                                          Hint::gaudi1_memory));
  }
  card->set_name(device.name);
  return std::make_shared<ThunkDomain>(vendor, std::move(card), std::move(device));
}

}  // namespace hbmwire::memory::gaudi

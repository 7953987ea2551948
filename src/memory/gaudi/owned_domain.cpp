// SPDX-License-Identifier: MIT
#include "base/forks.hpp"
#include "base/guarded.hpp"
#include "memory/gaudi/block_pool.hpp"
#include "memory/gaudi/domains.hpp"

namespace hbmwire::memory::gaudi {

namespace {

/// A card's descriptor, and the driver calls for it.
class OwnedCard final : public BlockSource {
 public:
  OwnedCard(std::shared_ptr<const CardDriver> driver, int fd)
      : driver_(std::move(driver)), fd_(fd) {}

  OwnedCard(const OwnedCard&) = delete;
  OwnedCard& operator=(const OwnedCard&) = delete;

  ~OwnedCard() override { driver_->close(fd_); }

  void set_name(std::string name) { name_ = std::move(name); }

  Result<DriverBlock> take_block(std::uint64_t size_bytes) override;
  void give_block_back(const DriverBlock& block) noexcept override;

  Result<Fd> export_block(const DriverBlock& block) override {
    return driver_->export_mapping(fd_, block.address, block.size_bytes, name_);
  }

 private:
  std::shared_ptr<const CardDriver> driver_;
  int fd_;
  std::string name_;
  MadeHere made_;
};

Result<DriverBlock> OwnedCard::take_block(std::uint64_t size_bytes) {
  HBMWIRE_TRY_ASSIGN(const std::uint64_t handle, driver_->allocate(fd_, size_bytes, name_));
  const auto address = driver_->map(fd_, handle, name_);
  if (!address) {
    driver_->free(fd_, handle);
    return tl::make_unexpected(address.error());
  }
  return DriverBlock{.address = *address, .size_bytes = size_bytes, .handle = handle};
}

void OwnedCard::give_block_back(const DriverBlock& block) noexcept {
  if (made_.is_inherited())
    return;  // the driver identifies a card's owner by the open file, which parent and child share
  // Unmap first: the driver refuses to free mapped memory.
  driver_->unmap(fd_, block.address);
  driver_->free(fd_, block.handle);
}

/// A card that this process owns. Its copy engine cannot be driven portably: raw command submission
/// differs by generation, and is closed while SynapseAI runs. So contents move by NIC loopback.
class OwnedDomain final : public DomainWithoutEngine {
 public:
  OwnedDomain(const Vendor& vendor, std::unique_ptr<OwnedCard> card, DeviceInfo device)
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
    return guarded(Stage::allocate, [&]() -> Result<Allocation> {
      HBMWIRE_TRY_ASSIGN(const std::uint64_t address, pool_.allocate(size_bytes));
      return Allocation(shared_from_this(), address, size_bytes);
    });
  }

  Result<DmabufRange> export_dmabuf(std::uint64_t address, std::uint64_t length_bytes) override {
    return guarded(Stage::export_dmabuf, [&]() -> Result<DmabufRange> {
      if (refusal_) return tl::make_unexpected(*refusal_);
      return pool_.export_range(address, length_bytes);
    });
  }

 private:
  void release(std::uint64_t address) noexcept override { pool_.free(address); }

  DeviceInfo device_;
  std::optional<Error> refusal_;
  std::unique_ptr<OwnedCard> card_;
  BlockPool pool_;
};

}  // namespace

Error DomainWithoutEngine::no_engine() const noexcept {
  return make_error(Errc::not_supported, Stage::copy, "the driver offers no copy engine",
                    device().name);
}

Result<std::shared_ptr<MemoryDomain>> open_with_driver(const Vendor& vendor,
                                                       const std::string& pci_address) {
  HBMWIRE_TRY_ASSIGN(const int fd, vendor.driver->open(pci_address));
  auto card = or_undo([&] { return std::make_unique<OwnedCard>(vendor.driver, fd); },
                      [&] { vendor.driver->close(fd); });
  HBMWIRE_TRY_ASSIGN(DeviceInfo device, describe_card(*vendor.driver, fd, vendor.driver->name()));
  if (device.page_bytes == 0) {
    return tl::make_unexpected(make_error(Errc::not_supported, Stage::open,
                                          "this card has no device virtual memory", device.name,
                                          Hint::gaudi1_memory));
  }
  card->set_name(device.name);
  return std::make_shared<OwnedDomain>(vendor, std::move(card), std::move(device));
}

}  // namespace hbmwire::memory::gaudi

// SPDX-License-Identifier: MIT
#include <mutex>

#include "base/guarded.hpp"
#include "memory/gaudi/block_table.hpp"
#include "memory/gaudi/domains.hpp"
#include "memory/generation.hpp"

namespace hbmwire::memory::gaudi {

namespace {

/// One mapping that the application has made in the driver, through its own descriptor. The domain
/// keeps no dma-buf open, so that the driver lets the application unmap right after the last region
/// has ended.
class AdoptedDomain final : public DomainWithoutEngine {
 public:
  AdoptedDomain(const Vendor& vendor, DeviceInfo device, const GaudiMemory& memory)
      : driver_(vendor.driver),
        device_(std::move(device)),
        refusal_(vendor.refusal(device_.name)),
        memory_(memory) {}

  [[nodiscard]] const DeviceInfo& device() const noexcept override { return device_; }

  std::optional<AddressInfo> find(std::uint64_t address, std::uint64_t length_bytes) override;

  Result<Allocation> allocate(std::uint64_t /*size_bytes*/) override {
    return tl::make_unexpected(make_error(Errc::not_supported, Stage::allocate,
                                          "adopted memory is one allocation, and no more",
                                          device_.name));
  }

  Result<DmabufRange> export_dmabuf(std::uint64_t address, std::uint64_t length_bytes) override;

 private:
  void release(std::uint64_t /*address*/) noexcept override {
    const std::scoped_lock lock(mutex_);
    released_ = true;
  }

  /// Call it with the lock held.
  [[nodiscard]] bool holds(std::uint64_t address, std::uint64_t length_bytes) const noexcept {
    const std::uint64_t offset = address - memory_.base_address;
    return !released_ && length_bytes != 0 && address >= memory_.base_address &&
           offset <= memory_.size_bytes && length_bytes <= memory_.size_bytes - offset;
  }

  std::shared_ptr<const CardDriver> driver_;
  DeviceInfo device_;
  std::optional<Error> refusal_;
  GaudiMemory memory_;
  std::uint64_t generation_ = next_generation();
  std::mutex mutex_;
  bool released_ = false;
  std::weak_ptr<const Fd> dmabuf_;
};

std::optional<AddressInfo> AdoptedDomain::find(std::uint64_t address, std::uint64_t length_bytes) {
  const std::scoped_lock lock(mutex_);
  if (!holds(address, length_bytes)) return std::nullopt;
  return AddressInfo{
      .device = &device_,
      .base_address = memory_.base_address,
      .size_bytes = memory_.size_bytes,
      .generation = generation_,
      .path = Path::zero_copy,
      .lifetime = Lifetime::use,  // while it is exported, the application's unmap fails
      .refusal = refusal_};
}

Result<DmabufRange> AdoptedDomain::export_dmabuf(std::uint64_t address,
                                                 std::uint64_t length_bytes) {
  return guarded(Stage::export_dmabuf, [&]() -> Result<DmabufRange> {
    if (refusal_) return tl::make_unexpected(*refusal_);
    const std::scoped_lock lock(mutex_);
    if (!holds(address, length_bytes)) return tl::make_unexpected(outside_error(device_));
    auto dmabuf = dmabuf_.lock();
    if (!dmabuf) {
      HBMWIRE_TRY_ASSIGN(Fd fd, driver_->export_mapping(memory_.device_fd, memory_.base_address,
                                                        memory_.size_bytes, device_.name));
      dmabuf = std::make_shared<const Fd>(std::move(fd));
      dmabuf_ = dmabuf;
    }
    return DmabufRange{.fd = std::move(dmabuf),
                       .base_address = memory_.base_address,
                       .offset_bytes = address - memory_.base_address,
                       .length_bytes = length_bytes,
                       .generation = generation_};
  });
}

}  // namespace

Result<Allocation> adopt(const Vendor& vendor, const GaudiMemory& memory) {
  if (memory.base_address == 0 || memory.size_bytes == 0 ||
      memory.base_address + (memory.size_bytes - 1) < memory.base_address) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure,
                                          "adopted memory has no address, no size, or wraps",
                                          "gaudi"));
  }
  HBMWIRE_TRY_ASSIGN(DeviceInfo device,
                     describe_card(*vendor.driver, memory.device_fd, "the application"));
  auto domain = std::make_shared<AdoptedDomain>(vendor, std::move(device), memory);
  return Allocation(std::move(domain), memory.base_address, memory.size_bytes);
}

}  // namespace hbmwire::memory::gaudi

// SPDX-License-Identifier: MIT
#include "memory/gaudi/thunk_domain.hpp"

#include <cerrno>
#include <mutex>

#include "base/destroy.hpp"
#include "memory/gaudi/block_table.hpp"
#include "memory/gaudi/hl_thunk.hpp"

namespace hbmwire::memory::gaudi {

namespace {

/// A card that this process owns through hl-thunk. It has no copy engine that could be driven
/// portably (raw command submission differs by generation and is closed while SynapseAI runs), so
/// that contents move by NIC loopback.
class ThunkDomain final : public MemoryDomain {
 public:
  ThunkDomain(HlThunk thunk, int fd, DeviceInfo device)
      : thunk_(std::move(thunk)), device_(std::move(device)), fd_(fd) {}

  ThunkDomain(const ThunkDomain&) = delete;
  ThunkDomain& operator=(const ThunkDomain&) = delete;

  ~ThunkDomain() override {
    if (const int result = thunk_.close(fd_); result < 0)
      log_warning("hlthunk_close", "failed", errno_of(result));
  }

  [[nodiscard]] const DeviceInfo& device() const noexcept override { return device_; }

  [[nodiscard]] std::string_view copy_engine() const noexcept override { return {}; }

  std::optional<AddressInfo> find(std::uint64_t address, std::uint64_t length_bytes) override {
    return blocks_.info(address, length_bytes);
  }

  Result<Allocation> allocate(std::uint64_t size_bytes) override;
  Result<DmabufRange> export_dmabuf(std::uint64_t address, std::uint64_t length_bytes) override;

  Result<PendingCopy> start_copy_in(std::uint64_t /*address*/,
                                    std::span<const std::byte> /*from*/) override {
    return tl::make_unexpected(no_engine());
  }

  Result<PendingCopy> start_copy_out(std::uint64_t /*address*/,
                                     std::span<std::byte> /*to*/) override {
    return tl::make_unexpected(no_engine());
  }

 private:
  void release(std::uint64_t address) noexcept override;

  [[nodiscard]] Error no_engine() const noexcept {
    return make_error(Errc::not_supported, Stage::copy, "hl-thunk offers no copy engine",
                      device_.name);
  }

  HlThunk thunk_;
  DeviceInfo device_;
  int fd_;
  BlockTable blocks_{device_};
};

Result<Allocation> ThunkDomain::allocate(std::uint64_t size_bytes) {
  HBMWIRE_TRY(blocks_.check_size(size_bytes));
  // Page size 0: the default. Neither contiguous nor shared is needed for an export, and both are
  // scarcer.
  errno = 0;
  const std::uint64_t handle =
      thunk_.device_memory_alloc(fd_, round_up(size_bytes, kExportPage), 0, false, false);
  if (handle == 0) {
    return tl::make_unexpected(system_error(Stage::allocate, "hlthunk_device_memory_alloc",
                                            errno != 0 ? errno : ENOMEM, device_.name,
                                            Hint::device_memory_exhausted));
  }
  errno = 0;
  const std::uint64_t address = thunk_.device_memory_map(fd_, handle, 0);
  if (address == 0) {
    const Error error = system_error(Stage::allocate, "hlthunk_device_memory_map",
                                     errno != 0 ? errno : ENOMEM, device_.name);
    destroy_or_log(
        "hlthunk_device_memory_free", [&] { return thunk_.device_memory_free(fd_, handle); },
        errno_of);
    return tl::make_unexpected(error);
  }
  blocks_.insert(address, size_bytes, handle);
  return Allocation(shared_from_this(), address, size_bytes);
}

Result<DmabufRange> ThunkDomain::export_dmabuf(std::uint64_t address, std::uint64_t length_bytes) {
  const std::scoped_lock lock(blocks_.mutex());
  HBMWIRE_TRY_ASSIGN(Block * block, blocks_.find(address, length_bytes));
  std::shared_ptr<const Fd> dmabuf = block->dmabuf.lock();
  if (!dmabuf) {
    HBMWIRE_TRY_ASSIGN(
        const int fd, export_mapping(thunk_, fd_, block->address, block->size_bytes, device_.name));
    dmabuf = std::make_shared<const Fd>(Fd{fd});
    block->dmabuf = dmabuf;
  }
  return DmabufRange{.fd = std::move(dmabuf),
                     .base_address = block->address,
                     .offset_bytes = address - block->address,
                     .length_bytes = length_bytes,
                     .generation = block->generation};
}

void ThunkDomain::release(std::uint64_t address) noexcept {
  // Forgotten first: once it is unmapped another thread may be given the same address. Unmapped
  // before it is freed: the driver refuses to free what is mapped.
  const Block block = blocks_.take(address);
  destroy_or_log(
      "hlthunk_memory_unmap", [&] { return thunk_.memory_unmap(fd_, address); }, errno_of);
  destroy_or_log(
      "hlthunk_device_memory_free", [&] { return thunk_.device_memory_free(fd_, block.handle); },
      errno_of);
}

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

Result<std::shared_ptr<MemoryDomain>> open_with_thunk(const std::string& card) {
  HBMWIRE_TRY_ASSIGN(HlThunk thunk, HlThunk::load());
  HBMWIRE_TRY_ASSIGN(const std::string bus_id, resolve_card(card));
  errno = 0;
  const int fd = thunk.open(kDontCare, bus_id.empty() ? nullptr : bus_id.c_str());
  if (fd < 0) return tl::make_unexpected(open_error(errno_of(fd), bus_id));

  HwIpInfo info{};
  char address[16] = {};
  if (int result = thunk.get_hw_ip_info(fd, &info);
      result < 0 || (result = thunk.get_pci_bus_id_from_fd(fd, address, sizeof address - 1)) < 0) {
    const Error error =
        system_error(Stage::open, "hlthunk_get_hw_ip_info", errno_of(result), bus_id);
    thunk.close(fd);
    return tl::make_unexpected(error);
  }
  DeviceInfo device;
  device.type = MemoryType::gaudi;
  device.pci_address = address;
  device.name = std::string(model_name(info.device_id)) + " " + address;
  device.driven_by = "hl-thunk";
  device.size_bytes = info.dram_size;
  device.page_bytes = info.dram_page_size;
  device.numa_node = numa_node_of(device.pci_address);
  if (info.dram_page_size == 0) {
    thunk.close(fd);
    return tl::make_unexpected(make_error(Errc::not_supported, Stage::open,
                                          "this card has no device virtual memory", device.name,
                                          Hint::gaudi1_memory));
  }
  return std::make_shared<ThunkDomain>(std::move(thunk), fd, std::move(device));
}

}  // namespace hbmwire::memory::gaudi

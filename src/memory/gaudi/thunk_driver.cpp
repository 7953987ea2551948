// SPDX-License-Identifier: MIT
#include "memory/gaudi/thunk_driver.hpp"

#include <fcntl.h>

#include <array>
#include <cerrno>

#include "base/destroy.hpp"

namespace hbmwire::memory::gaudi {

Result<int> ThunkDriver::open(const std::string& pci_address) const {
  errno = 0;
  const int fd = thunk_->open(kDontCare, pci_address.empty() ? nullptr : pci_address.c_str());
  if (fd >= 0) return fd;
  return tl::make_unexpected(open_error("hlthunk_open", errno_of(fd), pci_address));
}

Result<int> ThunkDriver::open_control(const Card& card) const {
  errno = 0;
  const int fd = thunk_->open_control(card.index, card.pci_address.c_str());
  if (fd >= 0) return fd;
  return tl::make_unexpected(
      system_error(Stage::probe, "hlthunk_open_control", errno_of(fd), card.pci_address));
}

void ThunkDriver::close(int device_fd) const noexcept {
  if (const int result = thunk_->close(device_fd); result < 0)
    log_warning("hlthunk_close", "failed", errno_of(result));
}

Result<CardFacts> ThunkDriver::facts(int device_fd, std::string_view card) const {
  HwIpInfo info{};
  if (const int result = thunk_->get_hw_ip_info(device_fd, &info); result < 0) {
    return tl::make_unexpected(
        system_error(Stage::open, "hlthunk_get_hw_ip_info", errno_of(result), card));
  }
  return CardFacts{
      .device_id = info.device_id, .dram_bytes = info.dram_size, .page_bytes = info.dram_page_size};
}

Result<std::string> ThunkDriver::pci_address(int device_fd) const {
  std::array<char, 16> address{};  // the library writes no NUL if there is no room for it
  errno = 0;
  const int result = thunk_->get_pci_bus_id_from_fd(device_fd, address.data(), address.size() - 1);
  if (result >= 0) return std::string(address.data());
  return tl::make_unexpected(
      system_error(Stage::open, "hlthunk_get_pci_bus_id_from_fd", errno_of(result), "gaudi"));
}

Result<std::uint64_t> ThunkDriver::allocate(int device_fd, std::uint64_t size_bytes,
                                            std::string_view card) const {
  // Page size 0: the default. An export needs neither contiguous nor shared memory, and both are
  // scarcer.
  errno = 0;
  const std::uint64_t handle = thunk_->device_memory_alloc(device_fd, size_bytes, 0, false, false);
  if (handle != 0) return handle;
  return tl::make_unexpected(system_error(Stage::allocate, "hlthunk_device_memory_alloc",
                                          errno != 0 ? errno : ENOMEM, card,
                                          Hint::device_memory_exhausted));
}

Result<std::uint64_t> ThunkDriver::map(int device_fd, std::uint64_t handle,
                                       std::string_view card) const {
  errno = 0;
  // 0: no wanted address.
  const std::uint64_t address = thunk_->device_memory_map(device_fd, handle, 0);
  if (address != 0) return address;
  return tl::make_unexpected(system_error(Stage::allocate, "hlthunk_device_memory_map",
                                          errno != 0 ? errno : ENOMEM, card));
}

void ThunkDriver::unmap(int device_fd, std::uint64_t address) const noexcept {
  destroy_or_log(
      "hlthunk_memory_unmap", [&] { return thunk_->memory_unmap(device_fd, address); }, errno_of);
}

void ThunkDriver::free(int device_fd, std::uint64_t handle) const noexcept {
  destroy_or_log(
      "hlthunk_device_memory_free", [&] { return thunk_->device_memory_free(device_fd, handle); },
      errno_of);
}

Result<Fd> ThunkDriver::export_mapping(int device_fd, std::uint64_t base, std::uint64_t size_bytes,
                                       std::string_view card) const {
  // The library refuses any other flags.
  const int fd = thunk_->export_dmabuf_fd(device_fd, base, round_up(size_bytes, kExportPage), 0,
                                          O_RDWR | O_CLOEXEC);
  if (fd >= 0) return Fd(fd);
  return tl::make_unexpected(system_error(Stage::export_dmabuf,
                                          "hlthunk_device_mapped_memory_export_dmabuf_fd",
                                          errno_of(fd), card, Hint::export_refused));
}

}  // namespace hbmwire::memory::gaudi

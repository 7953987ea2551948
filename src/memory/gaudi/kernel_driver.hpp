// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <vector>

#include "memory/gaudi/card_driver.hpp"

namespace hbmwire::memory::gaudi {

/// The system calls that KernelDriver makes: the real ones, or a test's replacement.
class DeviceCalls {
 public:
  DeviceCalls() = default;
  DeviceCalls(const DeviceCalls&) = delete;
  DeviceCalls& operator=(const DeviceCalls&) = delete;
  virtual ~DeviceCalls() = default;

  /// open(2) with O_RDWR | O_CLOEXEC, ioctl(2), close(2). On failure they return -1 with errno.
  virtual int open(const char* path) noexcept;
  virtual int ioctl(int fd, unsigned long request, void* argument) noexcept;
  virtual int close(int fd) noexcept;
};

/// The driver by its own system calls (include/uapi/drm/habanalabs_accel.h), without any library of
/// the vendor. Works with Linux 6.7 and newer, and, by their older numbers, with 6.3 to 6.6.
/// Earlier drivers could not export by the address of a mapping.
class KernelDriver final : public CardDriver {
 public:
  explicit KernelDriver(std::shared_ptr<DeviceCalls> calls = std::make_shared<DeviceCalls>())
      : calls_(std::move(calls)) {}

  /// Whether one of these cards answers through its control node, or has a control node that this
  /// user may not open. Then this driver is the one to use.
  [[nodiscard]] bool answers_for(const std::vector<Card>& cards) const;

  [[nodiscard]] const char* name() const noexcept override { return "habanalabs"; }

  Result<int> open(const std::string& pci_address) const override;
  Result<int> open_control(const Card& card) const override;
  void close(int device_fd) const noexcept override;
  Result<CardFacts> facts(int device_fd, std::string_view card) const override;
  Result<std::string> pci_address(int device_fd) const override;
  Result<std::uint64_t> allocate(int device_fd, std::uint64_t size_bytes,
                                 std::string_view card) const override;
  Result<std::uint64_t> map(int device_fd, std::uint64_t handle,
                            std::string_view card) const override;
  void unmap(int device_fd, std::uint64_t address) const noexcept override;
  void free(int device_fd, std::uint64_t handle) const noexcept override;
  Result<Fd> export_mapping(int device_fd, std::uint64_t base, std::uint64_t size_bytes,
                            std::string_view card) const override;

 private:
  std::shared_ptr<DeviceCalls> calls_;
};

}  // namespace hbmwire::memory::gaudi

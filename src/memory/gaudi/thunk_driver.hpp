// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "memory/gaudi/card_driver.hpp"
#include "memory/gaudi/hl_thunk.hpp"

namespace hbmwire::memory::gaudi {

/// The driver through a libhl-thunk.so with the full ABI.
class ThunkDriver final : public CardDriver {
 public:
  explicit ThunkDriver(std::shared_ptr<const HlThunk> thunk) : thunk_(std::move(thunk)) {}

  [[nodiscard]] const char* name() const noexcept override { return "hl-thunk"; }

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
  std::shared_ptr<const HlThunk> thunk_;
};

}  // namespace hbmwire::memory::gaudi

// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

#include "hbmwire/context.hpp"
#include "hbmwire/memory_domain.hpp"

// An application's direct use of the vendor's libraries, without hbmwire.
namespace hbmwire::test {

/// A card that the application opened, with one mapped allocation. Released in reverse order.
class ApplicationCard {
 public:
  /// Opens the card with that PCI address (empty: the first free one).
  explicit ApplicationCard(const std::string& pci_address = {});
  ~ApplicationCard();
  ApplicationCard(const ApplicationCard&) = delete;
  ApplicationCard& operator=(const ApplicationCard&) = delete;

  /// Allocates and maps. Returns the address, or 0.
  std::uint64_t map(std::uint64_t size_bytes);

  /// Unmaps and frees. Returns 0, or the first error of the driver.
  int unmap_and_free();

  [[nodiscard]] int fd() const { return fd_; }

  [[nodiscard]] GaudiMemory memory() const {
    return {.device_fd = fd_, .base_address = address_, .size_bytes = size_bytes_};
  }

 private:
  int fd_ = -1;
  std::uint64_t handle_ = 0;
  std::uint64_t address_ = 0;
  std::uint64_t size_bytes_ = 0;
};

/// SynapseAI in an application: initialized, with one card and some memory.
class ApplicationSynapse {
 public:
  explicit ApplicationSynapse(const std::string& pci_address = {});
  ~ApplicationSynapse();
  ApplicationSynapse(const ApplicationSynapse&) = delete;
  ApplicationSynapse& operator=(const ApplicationSynapse&) = delete;

  /// Returns the address, or 0.
  [[nodiscard]] std::uint64_t allocate(std::uint64_t size_bytes) const;

  [[nodiscard]] bool has_card() const;

 private:
  std::uint32_t device_ = 0;
};

}  // namespace hbmwire::test

// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

#include "hbmwire/context.hpp"
#include "hbmwire/memory_domain.hpp"

// Calls that an application makes with the vendor's libraries by itself, without hbmwire.
namespace hbmwire::test {

/// A card that the application opened, and one allocation of it, mapped; given back in reverse.
class ApplicationCard {
 public:
  /// Opens the card of that PCI address (empty: the first that is free).
  explicit ApplicationCard(const std::string& pci_address = {});
  ~ApplicationCard();
  ApplicationCard(const ApplicationCard&) = delete;
  ApplicationCard& operator=(const ApplicationCard&) = delete;

  /// Allocates and maps. The address, or 0.
  std::uint64_t map(std::uint64_t size_bytes);

  /// Unmaps and frees: 0, or what the driver said first.
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

/// SynapseAI as an application has it: initialized, one card acquired, some memory.
class ApplicationSynapse {
 public:
  explicit ApplicationSynapse(const std::string& pci_address = {});
  ~ApplicationSynapse();
  ApplicationSynapse(const ApplicationSynapse&) = delete;
  ApplicationSynapse& operator=(const ApplicationSynapse&) = delete;

  /// The address, or 0.
  [[nodiscard]] std::uint64_t allocate(std::uint64_t size_bytes) const;

  [[nodiscard]] bool has_card() const;

 private:
  std::uint32_t device_ = 0;
};

}  // namespace hbmwire::test

// SPDX-License-Identifier: MIT
#include "tools/doctor/evidence/pci_config.hpp"

#include <fmt/format.h>

namespace hbmwire::tools::doctor {
namespace {

// The header that every function has, PCI local bus specification 3.0, 6.1.
constexpr std::size_t kPciStatus = 0x06;
constexpr std::uint16_t kHasCapabilities = 0x10;
constexpr std::size_t kPciHeaderType = 0x0e;
constexpr std::size_t kFirstPointer = 0x34;
constexpr std::size_t kFirstPointerOfCardBus = 0x14;
constexpr std::size_t kHeaderBytes = 0x40;  // capabilities follow the header
constexpr std::size_t kConventionalBytes = 256;
constexpr std::size_t kConfigBytes = 4096;
// A longer list must have a loop: a capability takes at least four bytes, an extended one eight.
constexpr int kMostCapabilities = (kConventionalBytes - kHeaderBytes) / 4;
constexpr int kMostExtended = (kConfigBytes - kConventionalBytes) / 8;

constexpr PciCapability kNotThere{.state = PciCapability::State::absent, .offset = 0};
constexpr PciCapability kNotKnown{.state = PciCapability::State::unknown, .offset = 0};

PciCapability found_at(std::size_t offset) {
  return {.state = PciCapability::State::found, .offset = offset};
}

}  // namespace

PciConfig PciConfig::read(Evidence& machine, const std::string& address) {
  Answer answer = machine.file(pci_path(address, "config"));
  PciConfig config(std::move(answer.value));
  config.error_ = answer.error;
  return config;
}

std::optional<std::uint8_t> PciConfig::u8(std::size_t offset) const noexcept {
  if (offset >= bytes_.size()) return std::nullopt;
  return static_cast<std::uint8_t>(bytes_[offset]);
}

std::optional<std::uint16_t> PciConfig::u16(std::size_t offset) const noexcept {
  const auto low = u8(offset);
  const auto high = u8(offset + 1);
  if (!low || !high) return std::nullopt;
  return static_cast<std::uint16_t>(*low | *high << 8U);
}

std::optional<std::uint32_t> PciConfig::u32(std::size_t offset) const noexcept {
  const auto low = u16(offset);
  const auto high = u16(offset + 2);
  if (!low || !high) return std::nullopt;
  return *low | std::uint32_t{*high} << 16U;
}

bool PciConfig::answers() const noexcept {
  const auto vendor = u16(0);
  return vendor && *vendor != 0xffff;
}

PciCapability PciConfig::find_capability(std::uint8_t id) const noexcept {
  const auto status = u16(kPciStatus);
  const auto type = u8(kPciHeaderType);
  if (!answers() || !status || !type) return kNotKnown;
  if ((*status & kHasCapabilities) == 0) return kNotThere;
  const bool is_cardbus = (*type & 0x7fU) == 2;  // the highest bit marks several functions
  auto at = u8(is_cardbus ? kFirstPointerOfCardBus : kFirstPointer);
  for (int i = 0; i < kMostCapabilities; ++i) {
    if (!at) return kNotKnown;
    const std::size_t offset = *at & 0xfcU;  // the two lowest bits are reserved
    if (offset == 0) return kNotThere;
    const auto here = u8(offset);
    if (!here || offset < kHeaderBytes) return kNotKnown;
    if (*here == id) return found_at(offset);
    at = u8(offset + 1);
  }
  return kNotKnown;
}

PciCapability PciConfig::find_extended(std::uint16_t id) const noexcept {
  if (!answers()) return kNotKnown;
  if (bytes_.size() <= kConventionalBytes) {
    // Only functions of PCI Express have extended capabilities. If this is one, or may be one, the
    // kernel did not show them.
    const auto express = find_capability(kPciExpressCapability);
    return express.state == PciCapability::State::absent ? kNotThere : kNotKnown;
  }
  std::size_t offset = kConventionalBytes;
  for (int i = 0; i < kMostExtended; ++i) {
    const auto header = u32(offset);
    if (!header || *header == 0xffffffff) return kNotKnown;  // all ones: nothing answers there
    if (*header == 0) return kNotThere;
    if ((*header & 0xffffU) == id) return found_at(offset);
    offset = *header >> 20U & 0xffcU;  // of the next capability; its two lowest bits are reserved
    if (offset == 0) return kNotThere;
    if (offset < kConventionalBytes) return kNotKnown;
  }
  return kNotKnown;
}

std::string pci_path(std::string_view address, std::string_view name) {
  return fmt::format("/sys/bus/pci/devices/{}/{}", address, name);
}

}  // namespace hbmwire::tools::doctor

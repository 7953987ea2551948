// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tools/doctor/evidence/evidence.hpp"

namespace hbmwire::tools::doctor {

/// Whether a PCI function has a capability, and its offset.
struct PciCapability {
  enum class State {
    found,
    absent,
    unknown,  ///< the bytes that show it could not be read
  };

  State state = State::unknown;
  std::size_t offset = 0;  ///< offset of its header, if found

  [[nodiscard]] bool is_found() const noexcept { return state == State::found; }

  bool operator==(const PciCapability&) const = default;
};

// Identifiers of capabilities, PCI Express base specification 7.9 and PCI code and ID assignment.
inline constexpr std::uint8_t kPciExpressCapability = 0x10;
inline constexpr std::uint16_t kSerialNumberExtended = 0x0003;
inline constexpr std::uint16_t kAcsExtended = 0x000d;
inline constexpr std::uint16_t kAtsExtended = 0x000f;

/// The configuration space of a PCI function as the kernel shows it: 4096 bytes for PCI Express,
/// 256 for an older function, but only 64 to a process without the capability SYS_ADMIN
/// (drivers/pci/pci-sysfs.c, pci_read_config()). Data beyond these bytes are unknown, never
/// absent.
class PciConfig {
 public:
  /// Reads that of the function at `address` ("0000:3a:00.0").
  [[nodiscard]] static PciConfig read(Evidence& machine, const std::string& address);

  explicit PciConfig(std::string bytes) : bytes_(std::move(bytes)) {}

  /// The errno if nothing could be read, or 0.
  [[nodiscard]] int error() const noexcept { return error_; }

  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }

  // Little endian; empty if these bytes could not be read.
  [[nodiscard]] std::optional<std::uint8_t> u8(std::size_t offset) const noexcept;
  [[nodiscard]] std::optional<std::uint16_t> u16(std::size_t offset) const noexcept;
  [[nodiscard]] std::optional<std::uint32_t> u32(std::size_t offset) const noexcept;

  /// A capability in the first 256 bytes, by its identifier; find_extended(): one behind them.
  [[nodiscard]] PciCapability find_capability(std::uint8_t id) const noexcept;
  [[nodiscard]] PciCapability find_extended(std::uint16_t id) const noexcept;

 private:
  // False if all bytes are ones: the function has fallen off its bus.
  [[nodiscard]] bool answers() const noexcept;

  std::string bytes_;
  int error_ = 0;
};

/// The path of a file of a PCI function: "/sys/bus/pci/devices/0000:3a:00.0/config".
[[nodiscard]] std::string pci_path(std::string_view address, std::string_view name);

}  // namespace hbmwire::tools::doctor

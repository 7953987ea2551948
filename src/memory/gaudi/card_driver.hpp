// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"

#include "memory/gaudi/cards.hpp"

namespace hbmwire::memory::gaudi {

/// The facts that a compute or control node tells about its card.
struct CardFacts {
  std::uint32_t device_id = 0;
  std::uint64_t dram_bytes = 0;
  std::uint64_t page_bytes = 0;  ///< 0: no device virtual memory
};

/// The services of the driver habanalabs for a process, whether they are reached through
/// libhl-thunk.so (ThunkDriver), or, if that is not installed, by system calls (KernelDriver).
/// Thread-safe. `card` names the card in errors.
class CardDriver {
 public:
  CardDriver() = default;
  CardDriver(const CardDriver&) = delete;
  CardDriver& operator=(const CardDriver&) = delete;
  virtual ~CardDriver() = default;

  /// The value of DeviceInfo::driven_by. Lives as long as the program.
  [[nodiscard]] virtual const char* name() const noexcept = 0;

  /// Opens the card with this PCI address; empty: the first free card. The caller must
  /// close the descriptor. Errors: Stage::probe (no such card); Stage::open with Hint::gaudi_busy
  /// or Hint::gaudi_resetting.
  virtual Result<int> open(const std::string& pci_address) const = 0;

  /// Opens a card's control node, which does not take the card. Errors: Stage::probe.
  virtual Result<int> open_control(const Card& card) const = 0;

  /// Closes a descriptor of open() or open_control().
  virtual void close(int device_fd) const noexcept = 0;

  virtual Result<CardFacts> facts(int device_fd, std::string_view card) const = 0;

  /// "0000:33:00.0"
  virtual Result<std::string> pci_address(int device_fd) const = 0;

  /// Allocates device memory, in pages of the default size, and returns its handle.
  virtual Result<std::uint64_t> allocate(int device_fd, std::uint64_t size_bytes,
                                         std::string_view card) const = 0;

  /// Maps allocated memory, and returns its device address.
  virtual Result<std::uint64_t> map(int device_fd, std::uint64_t handle,
                                    std::string_view card) const = 0;

  /// These log their failures, because destructors call them.
  virtual void unmap(int device_fd, std::uint64_t address) const noexcept = 0;
  virtual void free(int device_fd, std::uint64_t handle) const noexcept = 0;

  /// Exports `size_bytes` (rounded up to whole 4096-byte pages) from the base of a mapping on. The
  /// offset is always 0, because kernels up to 6.6 check an offset and then ignore it.
  virtual Result<Fd> export_mapping(int device_fd, std::uint64_t base, std::uint64_t size_bytes,
                                    std::string_view card) const = 0;
};

/// Explains the errno of an open. `pci_address` is empty if any card would have done.
[[nodiscard]] Error open_error(const char* call, int error_number,
                               std::string_view pci_address) noexcept;

/// Bytes. The kernel exports whole pages (6.7 and newer insist on multiples of 4096 bytes).
inline constexpr std::uint64_t kExportPage = 4096;

[[nodiscard]] constexpr std::uint64_t round_up(std::uint64_t size, std::uint64_t page) noexcept {
  return (size + page - 1) / page * page;
}

}  // namespace hbmwire::memory::gaudi

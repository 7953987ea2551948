// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"

#include "memory/gaudi/cards.hpp"

namespace hbmwire::memory::gaudi {

/// What a compute or control node tells of its card.
struct CardFacts {
  std::uint32_t device_id = 0;
  std::uint64_t dram_bytes = 0;
  std::uint64_t page_bytes = 0;  ///< 0: no device virtual memory
};

/// What the driver habanalabs does for a process, whatever leads to it: libhl-thunk.so
/// (ThunkDriver), or, where that is not installed, the driver's own calls (KernelDriver).
/// Thread-safe. `card` names the card in errors.
class CardDriver {
 public:
  CardDriver() = default;
  CardDriver(const CardDriver&) = delete;
  CardDriver& operator=(const CardDriver&) = delete;
  virtual ~CardDriver() = default;

  /// As DeviceInfo::driven_by has it. Lives as long as the program.
  [[nodiscard]] virtual const char* name() const noexcept = 0;

  /// Takes a card, by its PCI address, or (empty) the first that is free. The caller closes the fd.
  /// Errors: Stage::probe: there is none; Stage::open: Hint::gaudi_busy, Hint::gaudi_resetting.
  virtual Result<int> open(const std::string& pci_address) const = 0;

  /// Opens a card's control node, which takes nothing. Errors: Stage::probe.
  virtual Result<int> open_control(const Card& card) const = 0;

  /// Of open() or open_control().
  virtual void close(int device_fd) const noexcept = 0;

  virtual Result<CardFacts> facts(int device_fd, std::string_view card) const = 0;

  /// "0000:33:00.0"
  virtual Result<std::string> pci_address(int device_fd) const = 0;

  /// A handle of device memory, in pages of the default size.
  virtual Result<std::uint64_t> allocate(int device_fd, std::uint64_t size_bytes,
                                         std::string_view card) const = 0;

  /// The device address at which allocated memory lies from now on.
  virtual Result<std::uint64_t> map(int device_fd, std::uint64_t handle,
                                    std::string_view card) const = 0;

  /// What fails is logged: nobody is left to be told.
  virtual void unmap(int device_fd, std::uint64_t address) const noexcept = 0;
  virtual void free(int device_fd, std::uint64_t handle) const noexcept = 0;

  /// The dma-buf of `size_bytes` (rounded up to whole 4096-byte pages) from the base of a mapping
  /// on. Offset 0 always: kernels up to 6.6 check an offset and then ignore it.
  virtual Result<Fd> export_mapping(int device_fd, std::uint64_t base, std::uint64_t size_bytes,
                                    std::string_view card) const = 0;
};

/// What the errno of an open means. `pci_address`: empty where any card would have done.
[[nodiscard]] Error open_error(const char* call, int error_number,
                               std::string_view pci_address) noexcept;

/// The kernel exports whole pages (kernel >= 6.7 insists on 4096-byte multiples).
inline constexpr std::uint64_t kExportPage = 4096;

[[nodiscard]] constexpr std::uint64_t round_up(std::uint64_t size, std::uint64_t page) noexcept {
  return (size + page - 1) / page * page;
}

}  // namespace hbmwire::memory::gaudi

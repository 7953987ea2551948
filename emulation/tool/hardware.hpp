// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "emulation/nic/state/behaviour.hpp"

namespace hbmwire::emulation::tool {

inline constexpr unsigned kMaxNics = 16;
inline constexpr unsigned kMaxPorts = 2;   ///< of a NIC, as for HCAs
inline constexpr unsigned kMaxCards = 32;  ///< of each family

/// Cards of one vendor: each family is an option of `hbmwire emulate` and has its own libraries.
enum class CardFamily : std::uint8_t { gaudi, cuda, rocm };

inline constexpr std::array kCardFamilies{CardFamily::gaudi, CardFamily::cuda, CardFamily::rocm};

/// "gaudi", "cuda", "rocm": the name of the option and the prefix of the cards' folders.
std::string_view name_of(CardFamily family);

std::optional<CardFamily> family_from_name(std::string_view name);

enum class CardKind : std::uint8_t { gaudi, gaudi2, gaudi3 };

std::string_view name_of(CardKind kind);
inline constexpr std::array kCardKinds{CardKind::gaudi, CardKind::gaudi2, CardKind::gaudi3};

std::optional<CardKind> kind_from_name(std::string_view name);

/// The values of --bar.
inline constexpr std::string_view kLargeBar = "large";
inline constexpr std::string_view kSmallBar = "small";

struct PciIdentity {
  std::uint16_t vendor = 0;
  std::uint16_t device = 0;
  std::uint32_t class_code = 0;  ///< base class, subclass, interface
  const char* driver = "";
};

/// The emulated hardware of a node.
struct Hardware {
  unsigned nics = 1;
  unsigned ports = 1;  ///< of each NIC
  unsigned gaudi = 1;
  CardKind gaudi_kind = CardKind::gaudi2;
  unsigned cuda = 0;
  unsigned rocm = 0;
  bool large_bar = true;  ///< of the AMD GPUs: the CPU may reach all of their memory
  std::array<emulation::nic::Behaviour, kMaxNics> behaviour{};
  std::bitset<kMaxNics> infiniband{};  ///< NICs with InfiniBand ports; the others have Ethernet
  std::bitset<kCardFamilies.size()> kept{};  ///< families whose real devices stay visible (--keep)

  [[nodiscard]] bool keeps(CardFamily family) const {
    return kept.test(static_cast<std::size_t>(family));
  }

  [[nodiscard]] unsigned cards(CardFamily family) const;

  /// The number of cards of all families.
  [[nodiscard]] unsigned all_cards() const { return gaudi + cuda + rocm; }

  /// Whether COMMAND sees a kernel configuration with peer-to-peer DMA. If all cards are real, it
  /// sees the machine's configuration, which decides what the real driver does.
  [[nodiscard]] bool has_own_kernel_config() const { return kept.none() || all_cards() > 0; }

  bool operator==(const Hardware&) const = default;
};

/// The properties that all cards of a family share in a node.
struct CardModel {
  PciIdentity pci;
  std::uint64_t memory_bytes = 0;
  const char* device_type = "";  ///< Gaudi: the content of that sysfs attribute
};

CardModel model_of(const Hardware& hardware, CardFamily family);

/// The devices in words: "2 NICs (emu0 to emu1), 8 gaudi2 cards, 1 H100 GPU", or "1 NIC (emu0),
/// beside the machine's own NVIDIA GPUs".
std::string devices_in_words(const Hardware& hardware);

}  // namespace hbmwire::emulation::tool

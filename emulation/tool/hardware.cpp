// SPDX-License-Identifier: MIT
#include "emulation/tool/hardware.hpp"

#include <fmt/core.h>

namespace hbmwire::emulation::tool {
namespace {

struct GaudiModel {
  std::string_view name;
  const char* device_type;
  std::uint16_t pci_device;
  std::uint64_t hbm_gib;
};

constexpr std::uint16_t kHabanaVendor = 0x1da3;
constexpr std::uint32_t kAcceleratorClass = 0x120000;
// In the order of CardKind.
constexpr std::array<GaudiModel, 3> kGaudiModels = {{
    {"gaudi", "GAUDI", 0x1000, 32},
    {"gaudi2", "GAUDI2", 0x1020, 96},
    {"gaudi3", "GAUDI3", 0x1060, 128},
}};

// There is one kind of GPU for each vendor: an H100 SXM5 with 80 GiB, an MI300X with 192 GiB
// (pci.ids).
constexpr CardModel kH100 = {{0x10de, 0x2330, 0x030200, "nvidia"}, 80ULL << 30};
constexpr CardModel kMi300x = {{0x1002, 0x74a1, kAcceleratorClass, "amdgpu"}, 192ULL << 30};

const GaudiModel& gaudi_model(CardKind kind) {
  return kGaudiModels[static_cast<std::size_t>(kind)];
}

std::string_view devices_of(CardFamily family) {
  switch (family) {
    case CardFamily::gaudi:
      return "Gaudi cards";
    case CardFamily::cuda:
      return "NVIDIA GPUs";
    case CardFamily::rocm:
      return "AMD GPUs";
  }
  return "?";
}

std::string counted(unsigned count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

std::string_view name_of(CardFamily family) {
  switch (family) {
    case CardFamily::gaudi:
      return "gaudi";
    case CardFamily::cuda:
      return "cuda";
    case CardFamily::rocm:
      return "rocm";
  }
  return "?";
}

std::optional<CardFamily> family_from_name(std::string_view name) {
  for (const auto family : kCardFamilies) {
    if (name_of(family) == name) return family;
  }
  return std::nullopt;
}

std::string_view name_of(CardKind kind) { return gaudi_model(kind).name; }

std::optional<CardKind> kind_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kGaudiModels.size(); ++i) {
    if (kGaudiModels[i].name == name) return static_cast<CardKind>(i);
  }
  return std::nullopt;
}

unsigned Hardware::cards(CardFamily family) const {
  switch (family) {
    case CardFamily::gaudi:
      return gaudi;
    case CardFamily::cuda:
      return cuda;
    case CardFamily::rocm:
      return rocm;
  }
  return 0;
}

CardModel model_of(const Hardware& hardware, CardFamily family) {
  if (family == CardFamily::cuda) return kH100;
  if (family == CardFamily::rocm) return kMi300x;
  const auto& model = gaudi_model(hardware.gaudi_kind);
  return {{kHabanaVendor, model.pci_device, kAcceleratorClass, "habanalabs"},
          model.hbm_gib << 30,
          model.device_type};
}

std::string devices_in_words(const Hardware& hardware) {
  std::string text = counted(hardware.nics, "NIC");
  if (hardware.nics == 1) text += " (emu0)";
  if (hardware.nics > 1) text += fmt::format(" (emu0 to emu{})", hardware.nics - 1);
  if (hardware.nics > 0 && hardware.ports > 1) text += fmt::format(" of {} ports", hardware.ports);
  if (!hardware.keeps(CardFamily::gaudi))
    text += ", " + counted(hardware.gaudi, fmt::format("{} card", name_of(hardware.gaudi_kind)));
  if (hardware.cuda > 0) text += ", " + counted(hardware.cuda, "H100 GPU");
  if (hardware.rocm > 0) text += ", " + counted(hardware.rocm, "MI300X GPU");
  std::string_view between = ", beside the machine's own ";
  for (const auto family : kCardFamilies) {
    if (!hardware.keeps(family)) continue;
    text += fmt::format("{}{}", between, devices_of(family));
    between = ", ";
  }
  return text;
}

}  // namespace hbmwire::emulation::tool

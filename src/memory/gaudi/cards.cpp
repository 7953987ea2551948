// SPDX-License-Identifier: MIT
#include "memory/gaudi/cards.hpp"

#include <dirent.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <tuple>

#include "base/sysfs.hpp"

namespace hbmwire::memory::gaudi {

namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kHabanaVendor = 0x1da3;
constexpr std::uint32_t kGoya = 0x0001;  // the vendor's other accelerator

template <class Number>
std::optional<Number> parse(std::string_view text, int base) {
  if (base == 16 && text.starts_with("0x")) text.remove_prefix(2);
  Number value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (failure != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The entries of a folder; none if it cannot be read. Does not use fs::directory_iterator: in
/// libstdc++ that ends the process if there is no memory for an entry's name (_Dir::advance() is
/// noexcept).
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  const auto close = [](DIR* open) { ::closedir(open); };
  const std::unique_ptr<DIR, decltype(close)> open(::opendir(folder.c_str()), close);
  if (!open) return entries;
  while (const dirent* const entry = ::readdir(open.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") entries.push_back(folder / name);
  }
  return entries;
}

/// Reads an attribute from the device (kernel 6.7 and newer, and the vendor's own driver), or else
/// from the class's entry (kernel 6.3 to 6.6, and older).
std::string attribute(const fs::path& entry, const char* name) {
  std::string text = read_line(entry / "device" / name);
  return text.empty() ? read_line(entry / name) : text;
}

/// The card at a PCI address; no value if it is not a Gaudi.
std::optional<Card> card_at(const std::string& pci_address) {
  const fs::path device = sysfs_root() / "bus/pci/devices" / pci_address;
  const auto vendor = parse<std::uint32_t>(read_line(device / "vendor"), 16);
  const auto device_id = parse<std::uint32_t>(read_line(device / "device"), 16);
  if (vendor != kHabanaVendor || !device_id || device_id == kGoya) return std::nullopt;
  Card card;
  card.pci_address = pci_address;
  card.device_id = *device_id;
  card.numa_node = parse<int>(read_line(device / "numa_node"), 10).value_or(-1);
  return card;
}

/// Adds the cards of one class: the entries whose names are `prefix` and a number. Skips control
/// nodes, whose names have more in between, and other vendors' devices, which have no pci_addr.
void add_class(const fs::path& folder, std::string_view prefix, std::vector<Card>& cards) {
  for (const fs::path& entry : entries_of(folder)) {
    const std::string name = entry.filename().string();
    if (!name.starts_with(prefix)) continue;
    const auto index = parse<int>(std::string_view(name).substr(prefix.size()), 10);
    if (!index || *index < 0) continue;
    auto card = card_at(attribute(entry, "pci_addr"));
    if (!card) continue;
    card->index = *index;
    card->status = attribute(entry, "status");
    cards.push_back(std::move(*card));
  }
}

}  // namespace

std::vector<Card> find_cards() {
  std::vector<Card> cards;
  add_class(sysfs_root() / "class/accel", "accel", cards);
  if (cards.empty()) add_class(sysfs_root() / "class/habanalabs", "hl", cards);
  for (const fs::path& entry : entries_of(sysfs_root() / "bus/pci/devices")) {
    const std::string address = entry.filename().string();
    if (std::ranges::find(cards, address, &Card::pci_address) != cards.end()) continue;
    if (auto card = card_at(address)) cards.push_back(std::move(*card));
  }
  std::ranges::sort(cards, {}, [](const Card& card) {
    return std::tuple(card.index < 0, card.index, card.pci_address);
  });
  return cards;
}

const char* model_name(std::uint32_t device_id) noexcept {
  switch (device_id) {
    case 0x1000:
    case 0x1001:
    case 0x1010:
    case 0x1011:
      return "gaudi";
    case 0x1020:
    case 0x1021:
      return "gaudi2";
    case 0x1060:
    case 0x1061:
    case 0x1062:
    case 0x1063:
      return "gaudi3";
    default:
      return "gaudi?";
  }
}

// From the driver's headers (gaudi2.h, gaudi3P.h; habanalabs, 1.18): virtual addresses begin right
// above the physical ones. They can never be host pointers, because the kernel gives user space at
// most 56 bits. The first Gaudi has physical addresses, which can. Nothing is known about newer
// cards.
AddressRange addresses_of(std::uint32_t device_id) noexcept {
  const std::string_view model = model_name(device_id);
  if (model == "gaudi2") return {0x1001'0000'0000'0000, 0x1002'0000'0000'0000};
  if (model == "gaudi3") return {0x0201'0000'0000'0000, 0x0202'0000'0000'0000};
  if (model == "gaudi") return {0, 32ULL << 30};
  return {0, UINT64_MAX};
}

}  // namespace hbmwire::memory::gaudi

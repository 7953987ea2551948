// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <list>
#include <mutex>
#include <vector>

#include "memory/gaudi/cards.hpp"
#include "memory/gaudi/domains.hpp"
#include "memory/gaudi/kernel_driver.hpp"
#include "memory/gaudi/thunk_driver.hpp"
#include "memory/providers.hpp"

namespace hbmwire::memory {

namespace {

using gaudi::Card;
using Owner = MemoryOptions::Owner;

constexpr std::string_view kBySynapse = "SynapseAI";

/// The addresses that a Gaudi's memory can have on this machine. An address outside, such as a host
/// address, needs no further look: that is the result of nearly all look-ups. The window only
/// grows.
class AddressWindow {
 public:
  void add(std::uint64_t begin, std::uint64_t end) noexcept {
    std::uint64_t now = begin_.load(std::memory_order_relaxed);
    while (begin < now && !begin_.compare_exchange_weak(now, begin, std::memory_order_relaxed)) {
    }
    now = end_.load(std::memory_order_relaxed);
    while (end > now && !end_.compare_exchange_weak(now, end, std::memory_order_relaxed)) {
    }
  }

  [[nodiscard]] bool may_hold(std::uint64_t address) const noexcept {
    return address >= begin_.load(std::memory_order_relaxed) &&
           address < end_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> begin_ = UINT64_MAX;
  std::atomic<std::uint64_t> end_ = 0;
};

/// An open domain, and its role in this Context.
struct KnownDomain {
  std::weak_ptr<MemoryDomain> domain;
  const DeviceInfo* device = nullptr;  // the description that users of the Context get
  bool as_any = false;                 // opened by the empty name
  std::uint64_t adopted_address = 0;   // 0: opened, not adopted
};

/// A KnownDomain whose domain is kept alive.
struct Held {
  std::shared_ptr<MemoryDomain> domain;
  KnownDomain known;
};

/// The answer of one domain, or of the application's SynapseAI, about an address.
struct Claim {
  AddressInfo info;
  bool holds_all = true;  // the claim covers the whole range
};

/// Gaudi cards.
class GaudiProvider final : public AdoptingProvider {
 public:
  explicit GaudiProvider(const Settings& settings);

  [[nodiscard]] const MemoryProbe& probe() const noexcept override { return probe_; }

  Result<std::shared_ptr<MemoryDomain>> open(const MemoryOptions& options) override;

  Result<std::optional<AddressInfo>> find(std::uint64_t address, std::uint64_t length_bytes,
                                          std::string_view device) override {
    if (!window_.may_hold(address)) return std::nullopt;
    return find_known(address, length_bytes, device);
  }

  Result<std::shared_ptr<MemoryDomain>> open_for(const AddressInfo& info) override;
  Result<Allocation> adopt(const GaudiMemory& memory) override;

 private:
  void look_for_driver(const std::vector<Card>& cards);
  void use_library(std::shared_ptr<const gaudi::HlThunk> thunk);
  void look_for_cards(const std::vector<Card>& cards);
  [[nodiscard]] DeviceInfo look_at(const Card& card, std::optional<Error>& denied) const;

  /// Whether hl-thunk is there and new enough, or the driver answers without it.
  [[nodiscard]] bool is_usable() const noexcept { return vendor_.driver != nullptr; }

  [[nodiscard]] Result<std::string> resolve(std::string_view device) const;
  Result<std::shared_ptr<MemoryDomain>> open_card(const std::string& card, Owner owner) const;
  Result<std::shared_ptr<MemoryDomain>> opened_before(const std::string& card, Owner owner);
  Result<std::optional<AddressInfo>> find_known(std::uint64_t address, std::uint64_t length_bytes,
                                                std::string_view device);
  [[nodiscard]] std::vector<Claim> claims_on(std::uint64_t address, std::uint64_t length_bytes);
  /// The claim of a card that the application drives by SynapseAI.
  [[nodiscard]] std::optional<Claim> applications_claim(std::uint64_t address,
                                                        std::uint64_t length_bytes);
  [[nodiscard]] std::vector<Held> held();
  /// A copy of the description that lives as long as this object: one for each card and library.
  [[nodiscard]] const DeviceInfo* lasting(const DeviceInfo& device);
  void remember(const std::shared_ptr<MemoryDomain>& domain, bool as_any,
                std::uint64_t adopted_address);

  Owner owner_;
  gaudi::Vendor vendor_;
  bool has_thunk_ = false;                   // libhl-thunk.so is there, in any version
  std::shared_ptr<gaudi::Synapse> synapse_;  // null: not installed, or not wanted
  MemoryProbe probe_;
  AddressWindow window_;

  std::mutex opening_;  // one thread opens at a time; look-ups never wait for it
  std::mutex mutex_;    // guards the members below; not held during a vendor's call
  std::vector<KnownDomain> known_;
  std::list<DeviceInfo> devices_;  // AddressInfo::device points here, so none is removed
};

GaudiProvider::GaudiProvider(const Settings& settings) : owner_(settings.gaudi.owner) {
  probe_.type = MemoryType::gaudi;
  vendor_.dmabuf = settings.gaudi.dmabuf;
  if (owner_ != Owner::hl_thunk) {
    if (auto synapse = gaudi::Synapse::load()) synapse_ = std::move(*synapse);
  }
  const std::vector<Card> cards = gaudi::find_cards();
  look_for_driver(cards);
  look_for_cards(cards);
}

/// Uses hl-thunk. If that is not installed, uses the driver's own calls.
void GaudiProvider::look_for_driver(const std::vector<Card>& cards) {
  auto thunk = gaudi::HlThunk::load();
  if (thunk) return use_library(std::move(*thunk));
  auto driver = std::make_shared<gaudi::KernelDriver>();
  if (thunk.error().code != Errc::not_found || !driver->answers_for(cards)) {
    probe_.missing = thunk.error();
    return;
  }
  probe_.library = "the driver habanalabs, without libhl-thunk.so";
  vendor_.driver = std::move(driver);
}

void GaudiProvider::use_library(std::shared_ptr<const gaudi::HlThunk> thunk) {
  has_thunk_ = true;
  probe_.library = thunk->description() + (synapse_ ? ", libSynapse.so" : "");
  if (thunk->abi() != gaudi::ThunkAbi::full) {
    probe_.missing = gaudi::old_abi_error(thunk->abi());
    return;
  }
  vendor_.driver = std::make_shared<gaudi::ThunkDriver>(std::move(thunk));
}

void GaudiProvider::look_for_cards(const std::vector<Card>& cards) {
  bool usable = false;
  Error reason = make_error(
      Errc::not_found, Stage::probe,
      cards.empty() ? "no Gaudi card found" : "the habanalabs driver has taken no card",
      cards.empty() ? std::string_view() : cards.front().pci_address, Hint::no_gaudi_device);
  for (const Card& card : cards) {
    std::optional<Error> denied;
    probe_.devices.push_back(look_at(card, denied));
    const auto [begin, end] = gaudi::addresses_of(card.device_id);
    window_.add(begin, end);
    if (denied) {
      reason = system_error(Stage::probe, denied->call, EACCES, probe_.devices.back().name);
    } else if (card.index >= 0) {
      usable = true;
    }
  }
  if (!probe_.missing && !usable) probe_.missing = reason;
}

/// Asks the card's control node, which any number of processes may open, and which does not take
/// the card. Facts that it does not tell stay unknown. With an old library, whose structures
/// differ, all stay unknown. Sets `denied` if this user may not even open the control node.
DeviceInfo GaudiProvider::look_at(const Card& card, std::optional<Error>& denied) const {
  DeviceInfo device;
  device.type = MemoryType::gaudi;
  device.pci_address = card.pci_address;
  device.name = std::string(gaudi::model_name(card.device_id)) + " " + card.pci_address;
  device.numa_node = card.numa_node;
  device.status = card.status;
  if (!is_usable() || card.index < 0) return device;
  const auto fd = vendor_.driver->open_control(card);
  if (!fd) {
    if (fd.error().number == EACCES) denied = fd.error();
    return device;
  }
  if (const auto facts = vendor_.driver->facts(*fd, card.pci_address)) {
    device.size_bytes = facts->dram_bytes;
    device.page_bytes = facts->page_bytes;
  }
  vendor_.driver->close(*fd);
  return device;
}

/// The PCI address of a card that was found; empty for any card.
Result<std::string> GaudiProvider::resolve(std::string_view device) const {
  if (device.empty()) return std::string();
  // hl-thunk and `lspci` accept addresses without the domain, too.
  const std::string full =
      device.find(':') == device.rfind(':') ? "0000:" + std::string(device) : std::string(device);
  for (std::size_t i = 0; i < probe_.devices.size(); ++i) {
    const std::string& address = probe_.devices[i].pci_address;
    if (device == std::to_string(i) || full == address) return address;
  }
  return tl::make_unexpected(make_error(Errc::not_found, Stage::probe, "no Gaudi card of this name",
                                        device, Hint::no_such_gaudi_device));
}

Result<std::shared_ptr<MemoryDomain>> GaudiProvider::open_card(const std::string& card,
                                                               Owner owner) const {
  if (owner == Owner::hl_thunk) return gaudi::open_with_driver(vendor_, card);
  auto by_synapse = gaudi::open_with_synapse(vendor_, card);
  if (by_synapse || owner == Owner::synapse) return by_synapse;
  // The driver replaces SynapseAI only if SynapseAI is not installed. If SynapseAI finds a card
  // busy, missing or broken, that is the reason, and trying another library would only hide it.
  if (by_synapse.error().code != Errc::not_found || by_synapse.error().hint != Hint::no_synapse)
    return by_synapse;
  return gaudi::open_with_driver(vendor_, card);
}

std::vector<Held> GaudiProvider::held() {
  std::vector<Held> all;
  const std::scoped_lock lock(mutex_);
  for (const KnownDomain& known : known_) {
    if (auto domain = known.domain.lock()) all.push_back({std::move(domain), known});
  }
  return all;
}

const DeviceInfo* GaudiProvider::lasting(const DeviceInfo& device) {
  const std::scoped_lock lock(mutex_);
  for (const DeviceInfo& known : devices_) {
    if (known.pci_address == device.pci_address && known.driven_by == device.driven_by)
      return &known;
  }
  return &devices_.emplace_back(device);
}

void GaudiProvider::remember(const std::shared_ptr<MemoryDomain>& domain, bool as_any,
                             std::uint64_t adopted_address) {
  const DeviceInfo* const device = lasting(domain->device());
  const std::scoped_lock lock(mutex_);
  std::erase_if(known_, [](const KnownDomain& one) { return one.domain.expired(); });
  known_.push_back(
      {.domain = domain, .device = device, .as_any = as_any, .adopted_address = adopted_address});
}

/// The domain that is open already, or null. While a card that was opened by the empty name is
/// open, the empty name means that card: a second call does not want a second card.
Result<std::shared_ptr<MemoryDomain>> GaudiProvider::opened_before(const std::string& card,
                                                                   Owner owner) {
  for (auto& [domain, known] : held()) {
    if (known.adopted_address != 0) continue;
    const bool by_synapse = known.device->driven_by == kBySynapse;
    const bool fits = owner == Owner::automatic || (owner == Owner::synapse) == by_synapse;
    if (card.empty() && known.as_any && fits) return domain;
    if (card != known.device->pci_address) continue;
    if (fits) return domain;
    return tl::make_unexpected(
        make_error(Errc::busy, Stage::open,
                   by_synapse ? "SynapseAI drives the card in this process"
                              : "this process has the card already, and not by SynapseAI",
                   known.device->name));
  }
  return std::shared_ptr<MemoryDomain>();
}

Result<std::shared_ptr<MemoryDomain>> GaudiProvider::open(const MemoryOptions& options) {
  auto card = resolve(options.device);
  // With a driver but no usable card, a name that no card has is the better reason.
  if (probe_.missing && (card || !(has_thunk_ || is_usable())))
    return tl::make_unexpected(*probe_.missing);
  if (!card) return tl::make_unexpected(card.error());
  const Owner owner = options.owner == Owner::automatic ? owner_ : options.owner;
  const std::scoped_lock opening(opening_);
  HBMWIRE_TRY_ASSIGN(auto domain, opened_before(*card, owner));
  if (domain) return domain;
  HBMWIRE_TRY_ASSIGN(domain, open_card(*card, owner));
  remember(domain, card->empty(), 0);
  return domain;
}

std::optional<Claim> GaudiProvider::applications_claim(std::uint64_t address,
                                                       std::uint64_t length_bytes) {
  if (!synapse_ || !is_usable()) return std::nullopt;
  for (const auto& pool : gaudi::application_pools(vendor_, *synapse_)) {
    const std::uint64_t offset = address - pool.base_address;
    if (address < pool.base_address || offset >= pool.size_bytes) continue;
    const auto card = std::ranges::find(probe_.devices, pool.pci_address, &DeviceInfo::pci_address);
    if (card == probe_.devices.end()) continue;
    DeviceInfo device = *card;
    device.driven_by = kBySynapse;
    return Claim{.info = {.device = lasting(device),
                          .base_address = address,
                          .size_bytes = length_bytes,
                          .generation = 0,
                          .path = Path::zero_copy,
                          .refusal = vendor_.refusal(device.name)},
                 .holds_all = length_bytes <= pool.size_bytes - offset};
  }
  return std::nullopt;
}

std::vector<Claim> GaudiProvider::claims_on(std::uint64_t address, std::uint64_t length_bytes) {
  std::vector<Claim> claims;
  bool synapse_asked = false;
  for (const auto& [domain, known] : held()) {
    // SynapseAI has one card in a process, so no other card can be the application's.
    synapse_asked = synapse_asked || known.device->driven_by == kBySynapse;
    auto info = domain->find(address, length_bytes);
    const bool holds_all = info.has_value();
    if (!info) info = domain->find(address, 1);
    if (!info) continue;
    info->device = known.device;
    claims.push_back({*info, holds_all});
  }
  if (synapse_asked) return claims;
  if (auto claim = applications_claim(address, length_bytes)) claims.push_back(*claim);
  return claims;
}

Result<std::optional<AddressInfo>> GaudiProvider::find_known(std::uint64_t address,
                                                             std::uint64_t length_bytes,
                                                             std::string_view device) {
  // A device that is not a Gaudi has no memory here.
  const auto wanted = resolve(device);
  if (!wanted) return std::nullopt;
  auto claims = claims_on(address, length_bytes);
  std::erase_if(claims, [&](const Claim& claim) {
    return !wanted->empty() && claim.info.device->pci_address != *wanted;
  });
  if (claims.empty()) return std::nullopt;
  // An allocation is a more certain claim than a pool in which the application allocates.
  const Claim& best = *std::ranges::max_element(
      claims, {}, [](const Claim& claim) { return claim.info.generation != 0; });
  const bool ambiguous = std::ranges::any_of(claims, [&](const Claim& claim) {
    return claim.info.device->pci_address != best.info.device->pci_address;
  });
  if (ambiguous) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure,
                                          "more than one card has the address", "gaudi",
                                          Hint::ambiguous_address));
  }
  if (best.holds_all) return best.info;
  return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure,
                                        "the range leaves the allocation that it begins in",
                                        best.info.device->name));
}

Result<std::shared_ptr<MemoryDomain>> GaudiProvider::open_for(const AddressInfo& info) {
  for (auto& [domain, known] : held()) {
    if (known.device == info.device && domain->find(info.base_address, 1)) return domain;
  }
  if (info.device->driven_by == kBySynapse) {
    MemoryOptions options;
    options.device = info.device->pci_address;
    options.owner = Owner::synapse;
    return open(options);
  }
  return tl::make_unexpected(
      make_error(Errc::not_found, Stage::open, "the card was closed", info.device->name));
}

Result<Allocation> GaudiProvider::adopt(const GaudiMemory& memory) {
  if (!is_usable()) return tl::make_unexpected(*probe_.missing);
  const std::scoped_lock opening(opening_);  // two overlapping calls must not both pass the check
  HBMWIRE_TRY_ASSIGN(Allocation allocation, gaudi::adopt(vendor_, memory));
  const std::string& card = allocation.domain().device().pci_address;
  for (const auto& [domain, known] : held()) {
    if (known.device->pci_address != card) continue;
    const std::uint64_t other = known.adopted_address;
    const bool other_begins_in_it = other >= memory.base_address &&
                                    other - memory.base_address < memory.size_bytes &&
                                    domain->find(other, 1).has_value();
    if (!other_begins_in_it && !domain->find(memory.base_address, 1)) continue;
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure,
                                          "memory that is known already can't be adopted", card));
  }
  window_.add(memory.base_address, memory.base_address + memory.size_bytes);
  remember(allocation.domain().shared_from_this(), false, memory.base_address);
  return allocation;
}

}  // namespace

std::unique_ptr<AdoptingProvider> make_gaudi_provider(const Settings& settings) {
  return std::make_unique<GaudiProvider>(settings);
}

}  // namespace hbmwire::memory

// SPDX-License-Identifier: MIT
#include <map>
#include <mutex>

#include "memory/gaudi/hl_thunk.hpp"
#include "memory/gaudi/thunk_domain.hpp"
#include "memory/open_domains.hpp"
#include "memory/providers.hpp"

namespace hbmwire::memory {

namespace {

using Owner = MemoryOptions::Owner;

Result<std::shared_ptr<MemoryDomain>> open_card(const std::string& card, Owner owner) {
  if (owner == Owner::hl_thunk) return gaudi::open_with_thunk(card);
  auto by_synapse = gaudi::open_with_synapse(card);
  if (by_synapse || owner == Owner::synapse) return by_synapse;
  // Only where SynapseAI is not installed does hl-thunk take its place; a card that SynapseAI finds
  // busy, missing or broken is just that, and a second look by another library would only hide the
  // reason.
  if (by_synapse.error().code != Errc::not_found || by_synapse.error().hint != Hint::no_synapse)
    return by_synapse;
  return gaudi::open_with_thunk(card);
}

/// Gaudi cards.
class GaudiProvider final : public Provider {
 public:
  explicit GaudiProvider(const Settings& settings) : owner_(settings.gaudi.owner) {
    probe_.type = MemoryType::gaudi;
  }

  [[nodiscard]] const MemoryProbe& probe() const noexcept override { return probe_; }

  Result<std::shared_ptr<MemoryDomain>> open(const MemoryOptions& options) override {
    const Owner owner = options.owner == Owner::automatic ? owner_ : options.owner;
    HBMWIRE_TRY_ASSIGN(const std::string card, gaudi::resolve_card(options.device));
    return open_.get({card, owner}, [&] { return open_card(card, owner); });
  }

  Result<std::optional<AddressInfo>> find(std::uint64_t address, std::uint64_t length_bytes,
                                          std::string_view device) override {
    std::optional<AddressInfo> found;
    for (const auto& domain : open_.all()) {
      const auto info = domain->find(address, length_bytes);
      if (!info || (!device.empty() && device != domain->device().pci_address)) continue;
      if (found) {
        return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure,
                                              "the address is of more than one card", "gaudi",
                                              Hint::ambiguous_address));
      }
      found = info;
    }
    return found;
  }

  Result<std::shared_ptr<MemoryDomain>> open_for(const AddressInfo& info) override {
    for (auto& domain : open_.all()) {
      if (domain->device().pci_address == info.device->pci_address) return domain;
    }
    return tl::make_unexpected(
        make_error(Errc::not_found, Stage::open, "the card was closed", info.device->name));
  }

 private:
  Owner owner_;
  MemoryProbe probe_;
  OpenDomains<std::pair<std::string, Owner>> open_;
};

}  // namespace

std::unique_ptr<Provider> make_gaudi_provider(const Settings& settings) {
  return std::make_unique<GaudiProvider>(settings);
}

}  // namespace hbmwire::memory

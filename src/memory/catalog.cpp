// SPDX-License-Identifier: MIT
#include "memory/catalog.hpp"

#include <algorithm>
#include <string>

#include "base/log.hpp"
#include "memory/providers.hpp"

namespace hbmwire::memory {

namespace {

std::unique_ptr<Provider> make_provider(MemoryType type, const Settings& settings) {
  switch (type) {
    case MemoryType::host:
      return make_host_provider();
    case MemoryType::gaudi:
      return make_gaudi_provider(settings);
    case MemoryType::cuda:
      return make_cuda_provider(settings);
    case MemoryType::rocm:
      return make_rocm_provider(settings);
    case MemoryType::dmabuf:
      return make_dmabuf_provider();
    default:
      return nullptr;
  }
}

void log_probe(const MemoryProbe& probe) {
  if (!log_wanted(LogLevel::debug)) return;
  std::string line = "memory " + std::string(to_string(probe.type)) +
                     ": devices: " + std::to_string(probe.devices.size());
  if (!probe.library.empty()) line += ", " + probe.library;
  if (probe.missing) line += ", " + describe(*probe.missing);
  log_line(LogLevel::debug, line);
}

}  // namespace

Catalog::Catalog(const std::vector<MemoryType>& wanted, const Settings& settings,
                 std::string default_device)
    : default_device_(std::move(default_device)) {
  for (const MemoryType type : kMemoryTypes) {
    MemoryProbe unwanted;
    unwanted.type = type;
    unwanted.missing = make_error(Errc::not_found, Stage::configure,
                                  "this type of memory was not asked for", to_string(type));
    auto& slot = providers_[static_cast<std::size_t>(type)];
    if (wanted.empty() || std::ranges::find(wanted, type) != wanted.end())
      slot = make_provider(type, settings);
    probes_.push_back(slot ? slot->probe() : unwanted);
    log_probe(probes_.back());
  }
}

Result<std::shared_ptr<MemoryDomain>> Catalog::open(MemoryType type,
                                                    const MemoryOptions& options) const {
  if (static_cast<std::size_t>(type) >= kMemoryTypes.size()) {
    return tl::make_unexpected(
        make_error(Errc::invalid_argument, Stage::configure, "unknown memory type"));
  }
  const auto refuse = [&](const char* why) {
    return tl::make_unexpected(
        make_error(Errc::invalid_argument, Stage::configure, why, to_string(type)));
  };
  if (type != MemoryType::host && options.host != HostMemoryOptions{})
    return refuse("only host memory has a choice of pages, sharing and NUMA nodes");
  if (type != MemoryType::gaudi && options.owner != MemoryOptions::Owner::automatic)
    return refuse("only Gaudi cards have a choice of the library that drives them");
  if (Provider* const found = provider(type)) return found->open(options);
  return tl::make_unexpected(*probes_[static_cast<std::size_t>(type)].missing);
}

Result<AddressInfo> Catalog::find(std::uint64_t address, std::uint64_t length_bytes,
                                  std::string_view device) const {
  if (length_bytes == 0 || address + (length_bytes - 1) < address) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure,
                                          "an address range is empty or wraps around"));
  }
  // In reverse, so that the host comes last: it claims all memory that no other type claims.
  for (std::size_t i = providers_.size(); i-- > 0;) {
    if (!providers_[i]) continue;
    HBMWIRE_TRY_ASSIGN(const auto found, find_on(*providers_[i], address, length_bytes, device));
    if (found) return *found;
  }
  return tl::make_unexpected(make_error(Errc::not_found, Stage::configure,
                                        "no memory that is looked for has this address"));
}

Result<std::optional<AddressInfo>> Catalog::find_on(Provider& provider, std::uint64_t address,
                                                    std::uint64_t length_bytes,
                                                    std::string_view device) const {
  auto found = provider.find(address, length_bytes, device);
  if (found || found.error().hint != Hint::ambiguous_address || default_device_.empty())
    return found;
  HBMWIRE_TRY_ASSIGN(const auto by_default, provider.find(address, length_bytes, default_device_));
  if (by_default) return by_default;
  return tl::make_unexpected(
      make_error(Errc::invalid_argument, Stage::configure,
                 "more than one card has the address, and the default device is none of them",
                 default_device_, Hint::ambiguous_address));
}

Result<Allocation> Catalog::borrow(std::uint64_t address, std::uint64_t length_bytes,
                                   std::string_view device) const {
  HBMWIRE_TRY_ASSIGN(const AddressInfo info, find(address, length_bytes, device));
  if (info.refusal) return tl::make_unexpected(*info.refusal);
  HBMWIRE_TRY_ASSIGN(auto domain, provider(info.device->type)->open_for(info));
  return Allocation::borrowed(std::move(domain), address, length_bytes);
}

Result<Allocation> Catalog::import_dmabuf(const DmabufMemory& memory) const {
  Provider* const found = provider(MemoryType::dmabuf);
  if (found == nullptr)
    return tl::make_unexpected(*probes_[static_cast<std::size_t>(MemoryType::dmabuf)].missing);
  // make_provider() has made this type.
  return static_cast<DmabufProvider*>(found)->import_memory(memory);
}

Result<Allocation> Catalog::adopt(const GaudiMemory& memory) const {
  Provider* const found = provider(MemoryType::gaudi);
  if (found == nullptr)
    return tl::make_unexpected(*probes_[static_cast<std::size_t>(MemoryType::gaudi)].missing);
  // make_provider() has made this type.
  return static_cast<AdoptingProvider*>(found)->adopt(memory);
}

}  // namespace hbmwire::memory

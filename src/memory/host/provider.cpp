// SPDX-License-Identifier: MIT
#include "memory/host/host_domain.hpp"
#include "memory/open_domains.hpp"
#include "memory/providers.hpp"

namespace hbmwire::memory {

namespace {

/// The memory that the CPU reads and writes. It is always there, and whatever is no device's is
/// its.
class HostProvider final : public Provider {
 public:
  HostProvider() {
    DeviceInfo host;
    host.name = "host";
    host.page_bytes = 4096;
    probe_.devices.push_back(host);
  }

  [[nodiscard]] const MemoryProbe& probe() const noexcept override { return probe_; }

  Result<std::shared_ptr<MemoryDomain>> open(const MemoryOptions& /*options*/) override {
    return open_.get(0,
                     []() -> Result<std::shared_ptr<MemoryDomain>> { return host::make_domain(); });
  }

  Result<std::optional<AddressInfo>> find(std::uint64_t address, std::uint64_t length_bytes,
                                          std::string_view /*device*/) override {
    return AddressInfo{.device = probe_.devices.data(),
                       .base_address = address,
                       .size_bytes = length_bytes,
                       .generation = 0,
                       .path = Path::host,
                       .refusal = {}};
  }

  Result<std::shared_ptr<MemoryDomain>> open_for(const AddressInfo& /*info*/) override {
    return open({});
  }

 private:
  MemoryProbe probe_;
  OpenDomains<int> open_;
};

}  // namespace

std::unique_ptr<Provider> make_host_provider() { return std::make_unique<HostProvider>(); }

}  // namespace hbmwire::memory

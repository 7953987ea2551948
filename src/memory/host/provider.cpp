// SPDX-License-Identifier: MIT
#include "memory/host/host_domain.hpp"
#include "memory/open_domains.hpp"
#include "memory/providers.hpp"

namespace hbmwire::memory {

namespace {

/// The memory that the CPU reads and writes. It always exists, and all memory that belongs to no
/// device belongs to it.
class HostProvider final : public Provider {
 public:
  HostProvider() { probe_.devices.push_back(ordinary_); }

  [[nodiscard]] const MemoryProbe& probe() const noexcept override { return probe_; }

  Result<std::shared_ptr<MemoryDomain>> open(const MemoryOptions& options) override {
    if (!is_host(options.device)) {
      return tl::make_unexpected(make_error(Errc::not_found, Stage::open,
                                            "host memory is no device and has no such name",
                                            options.device, Hint::no_such_device));
    }
    return open_.get(options.host, [&] { return host::open_domain(options.host, memory_); });
  }

  Result<std::optional<AddressInfo>> find(std::uint64_t address, std::uint64_t length_bytes,
                                          std::string_view device) override {
    if (!is_host(device)) return std::nullopt;
    HBMWIRE_TRY_ASSIGN(const auto found, memory_->find(address, length_bytes));
    return found ? found : host::foreign(ordinary_, address, length_bytes);
  }

  Result<std::shared_ptr<MemoryDomain>> open_for(const AddressInfo& info) override {
    std::shared_ptr<MemoryDomain> domain;
    memory_->blocks.visit(info.base_address, [&](auto, auto, const host::Block& block) {
      domain = block.domain.lock();
    });
    if (domain) return domain;
    return open({});
  }

 private:
  static bool is_host(std::string_view device) noexcept {
    return device.empty() || device == "host";
  }

  std::shared_ptr<host::Memory> memory_ = std::make_shared<host::Memory>();
  const DeviceInfo& ordinary_ = memory_->describe({});
  MemoryProbe probe_;
  OpenDomains<HostMemoryOptions> open_;
};

}  // namespace

std::unique_ptr<Provider> make_host_provider() { return std::make_unique<HostProvider>(); }

}  // namespace hbmwire::memory

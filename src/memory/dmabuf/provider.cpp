// SPDX-License-Identifier: MIT
#include "memory/dmabuf/dmabuf_domain.hpp"
#include "memory/providers.hpp"

namespace hbmwire::memory {

namespace {

/// Nothing is looked for here: all dma-bufs come from the application.
class ImportProvider final : public DmabufProvider {
 public:
  ImportProvider() { probe_.type = MemoryType::dmabuf; }

  [[nodiscard]] const MemoryProbe& probe() const noexcept override { return probe_; }

  Result<std::shared_ptr<MemoryDomain>> open(const MemoryOptions& /*options*/) override {
    return tl::make_unexpected(make_error(Errc::not_supported, Stage::open,
                                          "a dma-buf is no device that could be opened", "dmabuf",
                                          Hint::import_dmabuf));
  }

  Result<std::optional<AddressInfo>> find(std::uint64_t address, std::uint64_t length_bytes,
                                          std::string_view device) override {
    if (!device.empty() && device != "dmabuf") return std::nullopt;
    return imports_->find(address, length_bytes);
  }

  Result<std::shared_ptr<MemoryDomain>> open_for(const AddressInfo& info) override {
    std::shared_ptr<MemoryDomain> domain;
    imports_->ranges.visit(info.base_address, [&](auto, auto, const dmabuf::Import& import) {
      if (import.generation == info.generation) domain = import.domain.lock();
    });
    if (domain) return domain;
    return tl::make_unexpected(
        make_error(Errc::not_found, Stage::open, "the import is gone", "dmabuf"));
  }

  Result<Allocation> import_memory(const DmabufMemory& memory) override {
    return dmabuf::import_memory(memory, imports_);
  }

 private:
  MemoryProbe probe_;
  std::shared_ptr<dmabuf::Imports> imports_ = std::make_shared<dmabuf::Imports>();
};

}  // namespace

std::unique_ptr<DmabufProvider> make_dmabuf_provider() {
  return std::make_unique<ImportProvider>();
}

}  // namespace hbmwire::memory

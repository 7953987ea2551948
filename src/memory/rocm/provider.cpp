// SPDX-License-Identifier: MIT
#include <algorithm>
#include <charconv>

#include "memory/open_domains.hpp"
#include "memory/providers.hpp"
#include "memory/rocm/machine.hpp"
#include "memory/rocm/rocm_domain.hpp"

namespace hbmwire::memory {

namespace {

using rocm::Gpu;
using rocm::Machine;

/// AMD GPUs, through ROCr. HIP is built on ROCr, which therefore knows HIP's memory by address,
/// too.
class RocmProvider final : public Provider {
 public:
  explicit RocmProvider(const Settings& settings) {
    probe_.type = MemoryType::rocm;
    auto machine = Machine::look(settings.rocm);
    if (!machine) {
      probe_.missing = machine.error();
      return;
    }
    machine_ = std::move(*machine);
    probe_.library = "libhsa-runtime64.so.1";
    bool usable = false;
    for (const Gpu& gpu : machine_->gpus()) {
      probe_.devices.push_back(gpu.device);
      usable = usable || !gpu.refusal;
    }
    if (!usable) probe_.missing = machine_->gpus().front().refusal;
  }

  [[nodiscard]] const MemoryProbe& probe() const noexcept override { return probe_; }

  Result<std::shared_ptr<MemoryDomain>> open(const MemoryOptions& options) override {
    if (!machine_) return tl::make_unexpected(*probe_.missing);
    HBMWIRE_TRY_ASSIGN(const Gpu* gpu, gpu_named(options.device));
    return open(*gpu);
  }

  Result<std::optional<AddressInfo>> find(std::uint64_t address, std::uint64_t length_bytes,
                                          std::string_view device) override {
    if (!machine_) return std::nullopt;
    HBMWIRE_TRY_ASSIGN(const auto place, machine_->place_of(address));
    if (!place) return std::nullopt;
    if (!device.empty()) {
      HBMWIRE_TRY_ASSIGN(const Gpu* gpu, gpu_named(device));
      if (gpu != place->gpu) return std::nullopt;
    }
    const std::uint64_t offset = address - place->base;
    if (offset > place->size_bytes || length_bytes > place->size_bytes - offset) {
      return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure,
                                            "the range leaves the allocation that it begins in",
                                            place->gpu->device.name));
    }
    return machine_->describe(*place);
  }

  Result<std::shared_ptr<MemoryDomain>> open_for(const AddressInfo& info) override {
    for (const Gpu& gpu : machine_->gpus()) {
      if (&gpu.device == info.device) return open(gpu);
    }
    return tl::make_unexpected(
        make_error(Errc::not_found, Stage::open, "no such GPU", info.device->name));
  }

 private:
  Result<std::shared_ptr<MemoryDomain>> open(const Gpu& gpu) {
    return open_.get(&gpu, [&] { return rocm::open_gpu(machine_, gpu); });
  }

  /// Finds a GPU by PCI address or index; the first one if `name` is empty.
  [[nodiscard]] Result<const Gpu*> gpu_named(std::string_view name) const {
    const auto& gpus = machine_->gpus();
    if (name.empty()) return gpus.data();
    std::size_t index = gpus.size();
    const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), index);
    if (failure == std::errc{} && end == name.data() + name.size() && index < gpus.size())
      return &gpus[index];
    const auto found = std::ranges::find(
        gpus, name, [](const Gpu& gpu) -> std::string_view { return gpu.device.pci_address; });
    if (found != gpus.end()) return &*found;
    return tl::make_unexpected(make_error(Errc::not_found, Stage::probe, "no AMD GPU of this name",
                                          name, Hint::no_such_device));
  }

  std::shared_ptr<const Machine> machine_;  // null if it cannot be used
  MemoryProbe probe_;
  OpenDomains<const Gpu*> open_;
};

}  // namespace

std::unique_ptr<Provider> make_rocm_provider(const Settings& settings) {
  return std::make_unique<RocmProvider>(settings);
}

}  // namespace hbmwire::memory

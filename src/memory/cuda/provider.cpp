// SPDX-License-Identifier: MIT
#include "memory/cuda/domain.hpp"
#include "memory/open_domains.hpp"
#include "memory/providers.hpp"

namespace hbmwire::memory {

namespace {

using cuda::CudaDomain;
using cuda::Gpu;
using cuda::Known;

/// NVIDIA GPUs.
class CudaProvider final : public Provider {
 public:
  explicit CudaProvider(const Settings& settings) {
    probe_.type = MemoryType::cuda;
    machine_->settings = settings;
    if (const auto found = look(); !found) probe_.missing = found.error();
    for (const Gpu& gpu : machine_->gpus) probe_.devices.push_back(gpu.info);
  }

  [[nodiscard]] const MemoryProbe& probe() const noexcept override { return probe_; }

  Result<std::shared_ptr<MemoryDomain>> open(const MemoryOptions& options) override {
    if (probe_.missing) return tl::make_unexpected(*probe_.missing);
    HBMWIRE_TRY_ASSIGN(const Gpu* gpu, choose_gpu(machine_->gpus, options.device));
    return open_gpu(*gpu);
  }

  Result<std::optional<AddressInfo>> find(std::uint64_t address, std::uint64_t length_bytes,
                                          std::string_view device) override {
    if (machine_->gpus.empty()) return std::nullopt;
    HBMWIRE_TRY_ASSIGN(const auto there, look_up(*machine_->driver, address, 1));
    if (!there) return std::nullopt;
    HBMWIRE_TRY_ASSIGN(const auto memory, known(*there, address, length_bytes));
    const auto info = memory ? machine_->info_of(*memory) : std::nullopt;
    if (!info || device.empty()) return info;
    const auto wanted = choose_gpu(machine_->gpus, std::string(device));
    const bool same = wanted && (*wanted)->device == memory->device;
    return same ? info : std::nullopt;
  }

  Result<std::shared_ptr<MemoryDomain>> open_for(const AddressInfo& info) override {
    HBMWIRE_TRY_ASSIGN(const Gpu* gpu, choose_gpu(machine_->gpus, info.device->pci_address));
    HBMWIRE_TRY_ASSIGN(auto domain, open_gpu(*gpu));
    auto& cuda = static_cast<CudaDomain&>(*domain);
    HBMWIRE_TRY_ASSIGN(const auto memory, cuda.known(info.base_address, info.size_bytes));
    if (memory) HBMWIRE_TRY(cuda.prepare(*memory));
    return domain;
  }

 private:
  Result<void> look() {
    HBMWIRE_TRY_ASSIGN(machine_->driver, cuda::Driver::shared());
    probe_.library = describe_library(*machine_->driver);
    HBMWIRE_TRY_ASSIGN(machine_->gpus, find_gpus(*machine_->driver));
    return {};
  }

  Result<std::shared_ptr<MemoryDomain>> open_gpu(const Gpu& gpu) {
    return open_.get(gpu.device, [&]() -> Result<std::shared_ptr<MemoryDomain>> {
      return CudaDomain::open(machine_, gpu);
    });
  }

  /// Asks the domain of the memory's GPU, if it is open, because it knows more about memory that it
  /// has allocated. Otherwise asks CUDA again, about the whole range. `there`: CUDA's answer about
  /// the first byte.
  Result<std::optional<Known>> known(const Known& there, std::uint64_t address,
                                     std::uint64_t length_bytes) {
    for (const auto& domain : open_.all()) {
      auto& cuda = static_cast<CudaDomain&>(*domain);
      const Gpu* const gpu = machine_->gpu_of(there.device);
      if (gpu != nullptr && &cuda.device() == &gpu->info) return cuda.known(address, length_bytes);
    }
    return look_up(*machine_->driver, address, length_bytes);
  }

  std::shared_ptr<cuda::Machine> machine_ = std::make_shared<cuda::Machine>();
  MemoryProbe probe_;
  OpenDomains<int> open_;
};

}  // namespace

std::unique_ptr<Provider> make_cuda_provider(const Settings& settings) {
  return std::make_unique<CudaProvider>(settings);
}

}  // namespace hbmwire::memory

// SPDX-License-Identifier: MIT
#include "memory/host/host_domain.hpp"

#include <sys/mman.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "base/log.hpp"

namespace hbmwire::memory::host {

namespace {

/// Anonymous private pages of this process. The CPU is the copy engine.
class HostDomain final : public MemoryDomain {
 public:
  HostDomain() {
    device_.name = "host";
    device_.page_bytes = 4096;
  }

  [[nodiscard]] const DeviceInfo& device() const noexcept override { return device_; }

  [[nodiscard]] std::string_view copy_engine() const noexcept override { return "CPU"; }

  std::optional<AddressInfo> find(std::uint64_t address, std::uint64_t length_bytes) override {
    return AddressInfo{.device = &device_,
                       .base_address = address,
                       .size_bytes = length_bytes,
                       .generation = 0,
                       .path = Path::host,
                       .refusal = {}};
  }

  Result<Allocation> allocate(std::uint64_t size_bytes) override {
    if (size_bytes == 0) {
      return tl::make_unexpected(
          make_error(Errc::invalid_argument, Stage::allocate, "size 0", device_.name));
    }
    void* memory =
        ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      return tl::make_unexpected(system_error(Stage::allocate, "mmap", errno, device_.name));
    }
    const auto address = std::bit_cast<std::uint64_t>(memory);
    const std::scoped_lock lock(mutex_);
    sizes_[address] = size_bytes;
    return Allocation(shared_from_this(), address, size_bytes);
  }

  Result<DmabufRange> export_dmabuf(std::uint64_t /*address*/,
                                    std::uint64_t /*length_bytes*/) override {
    return tl::make_unexpected(make_error(
        Errc::not_supported, Stage::export_dmabuf,
        "anonymous host memory has no dma-buf, it is registered by address", device_.name));
  }

  Result<PendingCopy> start_copy_in(std::uint64_t address,
                                    std::span<const std::byte> from) override {
    std::memcpy(std::bit_cast<void*>(address), from.data(), from.size());
    return PendingCopy();
  }

  Result<PendingCopy> start_copy_out(std::uint64_t address, std::span<std::byte> to) override {
    std::memcpy(to.data(), std::bit_cast<const void*>(address), to.size());
    return PendingCopy();
  }

 private:
  void release(std::uint64_t address) noexcept override {
    const std::scoped_lock lock(mutex_);
    const auto found = sizes_.find(address);
    if (::munmap(std::bit_cast<void*>(address), found->second) != 0)
      log_warning("munmap", "failed", errno);
    sizes_.erase(found);
  }

  DeviceInfo device_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> sizes_;  // munmap wants to be told
};

}  // namespace

std::shared_ptr<MemoryDomain> make_domain() { return std::make_shared<HostDomain>(); }

}  // namespace hbmwire::memory::host

// SPDX-License-Identifier: MIT
#include "memory/dmabuf/dmabuf_domain.hpp"

#include <bit>
#include <mutex>
#include <utility>

#include "base/guarded.hpp"
#include "memory/dmabuf/cpu_access.hpp"
#include "memory/generation.hpp"

namespace hbmwire::memory::dmabuf {

namespace {

Error refusal(const char* what, Hint hint) {
  return make_error(Errc::invalid_argument, Stage::open, what, "dmabuf", hint);
}

Error no_engine() {
  return make_error(Errc::not_supported, Stage::copy,
                    "the exporter does not let the CPU map this dma-buf", "dmabuf");
}

/// A part of a dma-buf that the application has brought.
class DmabufDomain final : public MemoryDomain {
 public:
  static Result<std::shared_ptr<DmabufDomain>> create(const DmabufMemory& memory,
                                                      std::shared_ptr<Imports> imports);

  explicit DmabufDomain(std::shared_ptr<Imports> imports) : imports_(std::move(imports)) {}

  [[nodiscard]] std::uint64_t address() const noexcept { return address_; }

  [[nodiscard]] std::uint64_t generation() const noexcept { return generation_; }

  [[nodiscard]] const DeviceInfo& device() const noexcept override { return imports_->device(); }

  [[nodiscard]] std::string_view copy_engine() const noexcept override {
    return has_cpu_ ? "CPU" : "";
  }

  Result<Allocation> allocate(std::uint64_t /*size_bytes*/) override {
    return tl::make_unexpected(make_error(Errc::not_supported, Stage::allocate,
                                          "a dma-buf that was imported is all there is", "dmabuf",
                                          Hint::import_dmabuf));
  }

  std::optional<AddressInfo> find(std::uint64_t address, std::uint64_t length_bytes) override;
  Result<DmabufRange> export_dmabuf(std::uint64_t address, std::uint64_t length_bytes) override;
  Result<PendingCopy> start_copy_in(std::uint64_t address,
                                    std::span<const std::byte> from) override;
  Result<PendingCopy> start_copy_out(std::uint64_t address, std::span<std::byte> to) override;

 private:
  [[nodiscard]] Result<void> check_range(Stage stage, std::uint64_t address,
                                         std::uint64_t length_bytes) const;
  void release(std::uint64_t address) noexcept override;

  std::shared_ptr<Imports> imports_;
  std::uint64_t address_ = 0;
  std::uint64_t offset_ = 0;
  std::uint64_t length_ = 0;
  std::uint64_t generation_ = 0;
  bool has_cpu_ = false;  // whether the CPU can access the memory; constant after create()

  mutable std::mutex mutex_;                // guards the members below, which end with the import
  Descriptor descriptor_;                   // .fd is null after that
  std::optional<Reservation> reservation_;  // empty if the application's mapping gives the address
  CpuAccess cpu_;
};

Result<std::shared_ptr<DmabufDomain>> DmabufDomain::create(const DmabufMemory& memory,
                                                           std::shared_ptr<Imports> imports) {
  HBMWIRE_TRY_ASSIGN(Descriptor descriptor, imports->descriptors.duplicate(memory.fd));
  descriptor.writable = descriptor.writable && !memory.read_only;
  if (memory.offset_bytes > descriptor.size_bytes ||
      memory.length_bytes > descriptor.size_bytes - memory.offset_bytes) {
    return tl::make_unexpected(
        refusal("the dma-buf is shorter than offset and length say", Hint::not_a_dmabuf));
  }
  auto domain = std::make_shared<DmabufDomain>(std::move(imports));
  domain->offset_ = memory.offset_bytes;
  domain->length_ = memory.length_bytes;
  domain->generation_ = next_generation();
  if (memory.mapping != nullptr) {
    domain->address_ = std::bit_cast<std::uint64_t>(memory.mapping);
    domain->cpu_ = CpuAccess(descriptor, memory.mapping);
  } else {
    HBMWIRE_TRY_ASSIGN(domain->reservation_,
                       Reservation::create(memory.offset_bytes, memory.length_bytes));
    domain->address_ = domain->reservation_->address();
    domain->cpu_ = CpuAccess(descriptor, memory.offset_bytes, memory.length_bytes);
  }
  domain->has_cpu_ = static_cast<bool>(domain->cpu_);
  domain->descriptor_ = std::move(descriptor);
  return domain;
}

std::optional<AddressInfo> DmabufDomain::find(std::uint64_t address, std::uint64_t length_bytes) {
  const auto found = imports_->find(address, length_bytes);
  const bool mine = found && *found && (*found)->generation == generation_;
  return mine ? *found : std::nullopt;
}

Result<void> DmabufDomain::check_range(Stage stage, std::uint64_t address,
                                       std::uint64_t length_bytes) const {
  const std::uint64_t offset = address - address_;
  const bool inside = address >= address_ && length_bytes != 0 && offset <= length_ &&
                      length_bytes <= length_ - offset;
  if (inside && descriptor_.fd) return {};
  return tl::make_unexpected(
      make_error(Errc::invalid_argument, stage,
                 inside ? "the import is gone" : "the range is not within the import", "dmabuf"));
}

Result<DmabufRange> DmabufDomain::export_dmabuf(std::uint64_t address, std::uint64_t length_bytes) {
  return guarded(Stage::export_dmabuf, [&]() -> Result<DmabufRange> {
    const std::scoped_lock lock(mutex_);
    HBMWIRE_TRY(check_range(Stage::export_dmabuf, address, length_bytes));
    return DmabufRange{.fd = descriptor_.fd,
                       .base_address = address_ - offset_,
                       .offset_bytes = offset_ + (address - address_),
                       .length_bytes = length_bytes,
                       .generation = generation_,
                       .writable = descriptor_.writable};
  });
}

Result<PendingCopy> DmabufDomain::start_copy_in(std::uint64_t address,
                                                std::span<const std::byte> from) {
  return guarded(Stage::copy, [&]() -> Result<PendingCopy> {
    if (!has_cpu_) return tl::make_unexpected(no_engine());
    const std::scoped_lock lock(mutex_);
    HBMWIRE_TRY(check_range(Stage::copy, address, from.size()));
    HBMWIRE_TRY(cpu_.write(address - address_, from));
    return PendingCopy();
  });
}

Result<PendingCopy> DmabufDomain::start_copy_out(std::uint64_t address, std::span<std::byte> to) {
  return guarded(Stage::copy, [&]() -> Result<PendingCopy> {
    if (!has_cpu_) return tl::make_unexpected(no_engine());
    const std::scoped_lock lock(mutex_);
    HBMWIRE_TRY(check_range(Stage::copy, address, to.size()));
    HBMWIRE_TRY(cpu_.read(address - address_, to));
    return PendingCopy();
  });
}

void DmabufDomain::release(std::uint64_t address) noexcept {
  // Removes the import's range before its addresses become free, because they may be reused at
  // once.
  static_cast<void>(imports_->ranges.take(address));
  const std::scoped_lock lock(mutex_);
  cpu_ = CpuAccess();
  reservation_.reset();
  descriptor_.fd.reset();
}

}  // namespace

Imports::Imports() {
  device_.type = MemoryType::dmabuf;
  device_.name = "dmabuf";
  device_.page_bytes = kPageBytes;
}

Result<std::optional<AddressInfo>> Imports::find(std::uint64_t address,
                                                 std::uint64_t length_bytes) const {
  std::optional<AddressInfo> info;
  ranges.visit(address, [&](std::uint64_t base, std::uint64_t size_bytes, const Import& import) {
    info = AddressInfo{.device = &device_,
                       .base_address = base,
                       .size_bytes = size_bytes,
                       .generation = import.generation,
                       .path = Path::zero_copy,
                       .lifetime = Lifetime::allocation,
                       .refusal = {}};
  });
  if (info &&
      (length_bytes == 0 || length_bytes > info->size_bytes - (address - info->base_address))) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure,
                                          "the range leaves its import", device_.name));
  }
  return info;
}

Result<Allocation> import_memory(const DmabufMemory& memory,
                                 const std::shared_ptr<Imports>& imports) {
  if (memory.length_bytes == 0) return tl::make_unexpected(refusal("length 0", Hint::not_a_dmabuf));
  // Not std::bit_cast: clang-tidy 14's analyzer crashes on the remainder of its result.
  const auto mapped = reinterpret_cast<std::uintptr_t>(memory.mapping);
  if (memory.mapping != nullptr && mapped % kPageBytes != memory.offset_bytes % kPageBytes) {
    return tl::make_unexpected(refusal("mapping and offset lie at different places in their pages",
                                       Hint::dmabuf_page_offset));
  }
  HBMWIRE_TRY_ASSIGN(const auto domain, DmabufDomain::create(memory, imports));
  if (!imports->ranges.insert(domain->address(), memory.length_bytes,
                              {.generation = domain->generation(), .domain = domain})) {
    return tl::make_unexpected(refusal("another import has this mapping already", Hint::none));
  }
  return Allocation(domain, domain->address(), memory.length_bytes);
}

}  // namespace hbmwire::memory::dmabuf

// SPDX-License-Identifier: MIT
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <optional>

#include "hbmwire/fd.hpp"
#include "hbmwire/memory_domain.hpp"

#include "memory_contract.hpp"

namespace hbmwire::test {
namespace {

/// The offset in the dma-buf where memory of this size begins: any number, aligned to pages or not.
std::uint64_t lead_of(std::uint64_t variant) { return (variant * 7919) % 20'000; }

/// A part of a buffer that the CPU can map. The imported descriptor is closed at once, because the
/// library keeps its own.
Result<Allocation> part_of_memfd(const Context& context, std::uint64_t size_bytes,
                                 std::uint64_t variant) {
  const std::uint64_t lead = lead_of(variant);
  const Fd file(::memfd_create("subject", MFD_CLOEXEC));
  // The buffer ends one byte after the part.
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(lead + size_bytes + 1)) != 0)
    return tl::make_unexpected(system_error(Stage::allocate, "memfd_create", errno));
  return context.import_dmabuf(
      {.fd = file.get(), .offset_bytes = lead, .length_bytes = size_bytes});
}

MemorySubject mappable() {
  return {.name = "imports that the CPU can map",
          .type = MemoryType::dmabuf,
          .allocates = false,
          .copy_engine = "CPU",
          .make = part_of_memfd,
          .libraries = {"nic"}};
}

/// A large piece of a card's memory, exported once. Each import gets another part. It is released
/// at the end of a test, after all imports, because the driver requires that order.
class Exporter : public testing::EmptyTestEventListener {
 public:
  static Exporter& instance() {
    static auto* const exporter = [] {
      auto* const made = new Exporter;  // GoogleTest owns it from here on
      testing::UnitTest::GetInstance()->listeners().Append(made);
      return made;
    }();
    return *exporter;
  }

  /// Parts of existing imports do not overlap: the buffer is larger than all imports of a test.
  Result<DmabufRange> next_part(std::uint64_t size_bytes) {
    const std::scoped_lock lock(mutex_);
    if (!memory_) {
      HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
      HBMWIRE_TRY_ASSIGN(const auto card,
                         context.open(MemoryType::gaudi,
                                      {.device = "1", .owner = MemoryOptions::Owner::hl_thunk}));
      HBMWIRE_TRY_ASSIGN(memory_, card->allocate(kBytes));
      used_ = 0;
    }
    if (used_ + size_bytes > kBytes) used_ = 0;
    const std::uint64_t at = used_;
    used_ += size_bytes;
    return memory_->domain().export_dmabuf(memory_->address() + at, size_bytes);
  }

 private:
  static constexpr std::uint64_t kBytes = std::uint64_t{1} << 30U;

  void OnTestEnd(const testing::TestInfo& /*info*/) override {
    const std::scoped_lock lock(mutex_);
    memory_.reset();
  }

  std::mutex mutex_;
  std::optional<Allocation> memory_;
  std::uint64_t used_ = 0;
};

/// Memory that the CPU cannot map, like that of an accelerator.
Result<Allocation> part_of_card(const Context& context, std::uint64_t size_bytes,
                                std::uint64_t /*variant*/) {
  HBMWIRE_TRY_ASSIGN(const DmabufRange range, Exporter::instance().next_part(size_bytes));
  return context.import_dmabuf({.fd = range.fd->get(),
                                .offset_bytes = range.offset_bytes,
                                .length_bytes = range.length_bytes});
}

MemorySubject unmappable() {
  return {.name = "imports that the CPU can't map",
          .type = MemoryType::dmabuf,
          .allocates = false,
          .make = part_of_card};
}

INSTANTIATE_TEST_SUITE_P(Unmappable, MemoryContract, testing::Values(unmappable()));
INSTANTIATE_TEST_SUITE_P(Unmappable, MemoryTransfer, testing::Values(unmappable()));
INSTANTIATE_TEST_SUITE_P(Unmappable, MemoryProperty, testing::Values(unmappable()));
INSTANTIATE_TEST_SUITE_P(Unmappable, MemoryCycles, testing::Values(unmappable()));

}  // namespace
}  // namespace hbmwire::test

HBMWIRE_MEMORY_SUBJECT(Mappable, mappable());

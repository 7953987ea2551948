// SPDX-License-Identifier: MIT
#include "memory/cuda/addresses.hpp"

#include <array>

namespace hbmwire::memory::cuda {

namespace {

/// The driver's answers about one address; each is 0 if the driver has none.
struct Answers {
  int memory_type = 0;
  unsigned managed = 0;
  int device = 0;
  ContextHandle context = nullptr;
  unsigned long long buffer_id = 0;
  DevicePointer range_start = 0;
  std::size_t range_bytes = 0;
  int rdma_capable = 0;
};

/// Returns false if CUDA does not know the address.
Result<bool> ask(const Driver& driver, std::uint64_t address, Answers& answers) {
  std::array attributes{kPointerMemoryType, kPointerIsManaged,  kPointerDeviceOrdinal,
                        kPointerContext,    kPointerBufferId,   kPointerRangeStart,
                        kPointerRangeSize,  kPointerRdmaCapable};
  std::array<void*, attributes.size()> data{
      &answers.memory_type, &answers.managed,     &answers.device,      &answers.context,
      &answers.buffer_id,   &answers.range_start, &answers.range_bytes, &answers.rdma_capable};
  const int result =
      driver.pointer_get_attributes(attributes.size(), attributes.data(), data.data(), address);
  switch (result) {
    case kSuccess:
      return answers.memory_type != 0;
    // Older drivers return these for addresses that are not theirs.
    case kInvalidValue:
    case kNotInitialized:
    case kDeinitialized:
    case kInvalidContext:
      return false;
    default:
      return tl::make_unexpected(
          cuda_error(Stage::probe, "cuPointerGetAttributes", result, "cuda"));
  }
}

/// Makes the context of the memory current: the one that allocated it. Virtual memory has none; for
/// it, the device's primary context is used if the application has made it. Never makes a context.
class OwnersContext {
 public:
  OwnersContext(const Driver& driver, const Answers& answers) : driver_(driver) {
    ContextHandle context = answers.context;
    if (context == nullptr) {
      unsigned flags = 0;
      int active = 0;
      const int asked = driver.primary_context_get_state(answers.device, &flags, &active);
      if (asked != kSuccess || active == 0) return;
      if (driver.primary_context_retain(&context, answers.device) != kSuccess) return;
      retained_ = answers.device;
    }
    current_.emplace(driver, context);
  }

  OwnersContext(const OwnersContext&) = delete;
  OwnersContext& operator=(const OwnersContext&) = delete;

  ~OwnersContext() {
    current_.reset();
    if (!retained_) return;
    destroy_or_log_cuda("cuDevicePrimaryCtxRelease",
                        [&] { return driver_.primary_context_release(*retained_); });
  }

 private:
  const Driver& driver_;
  std::optional<int> retained_;
  std::optional<CurrentContext> current_;
};

/// One mapping, or an allocation of cuMemAlloc().
struct Segment {
  DevicePointer base = 0;
  std::size_t bytes = 0;
};

Result<Segment> segment_at(const Driver& driver, std::uint64_t address) {
  Segment segment;
  HBMWIRE_TRY(check(Stage::probe, "cuMemGetAddressRange",
                    driver.mem_get_address_range(&segment.base, &segment.bytes, address), "cuda"));
  return segment;
}

Error leaves_allocation() {
  return make_error(Errc::invalid_argument, Stage::probe, "the range leaves its allocation",
                    "cuda");
}

/// FNV-1a over the numbers that identify a mapping.
std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  for (unsigned i = 0; i < 64; i += 8) hash = (hash ^ (value >> i & 0xffU)) * 0x100'0000'01b3;
  return hash;
}

/// Adds the mappings that follow, until `known` holds the range up to `end`.
Result<void> extend(const Driver& driver, const Answers& first, std::uint64_t end, Known& known) {
  std::uint64_t hash = mix(mix(0xcbf2'9ce4'8422'2325, known.base), first.buffer_id);
  while (known.base + known.bytes < end) {
    const std::uint64_t next = known.base + known.bytes;
    Answers answers;
    HBMWIRE_TRY_ASSIGN(const bool there, ask(driver, next, answers));
    // Only a mapping in the same reservation continues the range: memory behind the reservation's
    // end belongs to other allocations.
    const bool continues =
        there && answers.range_start == first.range_start && answers.device == first.device;
    if (!continues) return tl::make_unexpected(leaves_allocation());
    HBMWIRE_TRY_ASSIGN(const Segment segment, segment_at(driver, next));
    if (segment.base != next) return tl::make_unexpected(leaves_allocation());
    known.bytes += segment.bytes;
    known.rdma_capable = known.rdma_capable && answers.rdma_capable != 0;
    hash = mix(mix(hash, segment.base), answers.buffer_id);
  }
  known.generation = hash | 1U;  // never 0
  return {};
}

}  // namespace

Result<std::optional<Known>> look_up(const Driver& driver, std::uint64_t address,
                                     std::uint64_t length_bytes) {
  Answers answers;
  HBMWIRE_TRY_ASSIGN(const bool there, ask(driver, address, answers));
  if (!there) return std::nullopt;
  const OwnersContext owners(driver, answers);
  HBMWIRE_TRY_ASSIGN(const Segment segment, segment_at(driver, address));
  Known known;
  known.base = segment.base;
  known.bytes = segment.bytes;
  known.generation = answers.buffer_id;
  known.device = answers.device;
  known.of_host = answers.memory_type == kMemoryTypeHost;
  known.managed = answers.managed != 0;
  known.rdma_capable = answers.rdma_capable != 0;
  // Memory of cuMemAlloc() fills its range exactly. Memory of cuMemMap() lies in a reservation,
  // which may be larger.
  known.is_virtual = answers.context == nullptr || answers.range_start != segment.base ||
                     answers.range_bytes != segment.bytes;
  const std::uint64_t end = address + length_bytes;
  if (end < address) return tl::make_unexpected(leaves_allocation());
  if (known.is_virtual) {
    HBMWIRE_TRY(extend(driver, answers, end, known));
  } else if (end > known.base + known.bytes) {
    return tl::make_unexpected(leaves_allocation());
  }
  return known;
}

}  // namespace hbmwire::memory::cuda

// SPDX-License-Identifier: MIT
#include "tools/common/hardware.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "hbmwire/topology.hpp"

#include "tools/common/stopwatch.hpp"

namespace hbmwire::tools {
namespace {

const NicDevice* find_nic(const std::vector<NicDevice>& nics, const std::string& name) {
  const auto found = std::ranges::find(nics, name, &NicDevice::name);
  return found == nics.end() ? nullptr : &*found;
}

void add_link(std::vector<Limit>& limits, const NicDevice& nic, unsigned port) {
  const auto same = [&](const NicPort& other) { return other.info.port == port; };
  const auto found = std::ranges::find_if(nic.ports, same);
  if (found == nic.ports.end() || found->rate_bits_per_second == 0) return;
  const auto rate = static_cast<double>(found->rate_bits_per_second);
  limits.push_back({.kind = Limit::Kind::link,
                    .bytes_per_second = rate / kBitsPerByte,
                    .what = fmt::format("link of {}:{}, {:g} Gb/s", nic.name, port, rate / 1e9)});
}

// `name`: of the device at `address`.
void add_pcie(std::vector<Limit>& limits, const Context& context, const std::string& name,
              const std::string& address, const std::string& towards) {
  const auto link = context.pci_link(address, towards);
  if (!link) return;
  limits.push_back({.kind = Limit::Kind::pcie,
                    .bytes_per_second = link->bytes_per_second(),
                    .what = fmt::format("PCIe of {} at {}, {:g} GT/s x{}", name, link->at,
                                        link->gigatransfers_per_second, link->lanes)});
}

// Keeps the compiler from removing a copy that is never read.
void keep(const std::byte* bytes) noexcept { asm volatile("" : : "r"(bytes) : "memory"); }

using Copy = void (*)(std::byte* to, const std::byte* from, std::size_t bytes);

void copy_by_library(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

#if defined(__x86_64__)
// Copies with the processor's string instruction, which the C library uses only for some sizes.
void copy_by_processor(std::byte* to, const std::byte* from, std::size_t bytes) {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

constexpr std::array<Copy, 2> kCopies{copy_by_library, copy_by_processor};
#else
constexpr std::array<Copy, 1> kCopies{copy_by_library};
#endif

// Offsets of the target in its page; the source begins at the start of a page. On some processors a
// load waits for an earlier store with the same low twelve bits of address, so copies between
// ranges with the same offset are many times slower. On others, copies to a target that is not
// aligned to a cache line are slower.
constexpr std::array<std::size_t, 4> kOffsets{0, 64, 2048, 2048 + 64};
constexpr std::size_t kPageBytes = 4096;

/// `span_bytes` that begin `offset` bytes after the start of a page.
class CopyRange {
 public:
  CopyRange(std::size_t span_bytes, std::size_t offset, std::byte value)
      : bytes_(span_bytes + offset + kPageBytes, value) {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data());
    begin_ = bytes_.data() + (kPageBytes - address % kPageBytes) % kPageBytes + offset;
  }

  [[nodiscard]] std::byte* begin() noexcept { return begin_; }

 private:
  std::vector<std::byte> bytes_;
  std::byte* begin_;
};

struct CopyRound {
  Copy copy;
  std::size_t size_bytes;
  std::size_t span_bytes;
  std::uint64_t copies;
};

double one_round(std::byte* to, const std::byte* from, const CopyRound& round) {
  const std::size_t size = round.size_bytes;
  const std::size_t last = round.span_bytes - size;
  std::size_t at = 0;
  const Stopwatch stopwatch;
  for (std::uint64_t i = 0; i < round.copies; ++i) {
    round.copy(to + at, from + at, size);
    keep(to);
    at = at + size > last ? 0 : at + size;
  }
  const auto nanoseconds = static_cast<double>(std::max<std::uint64_t>(stopwatch.nanoseconds(), 1));
  return static_cast<double>(round.copies * size) / nanoseconds * 1e9;
}

}  // namespace

Way way_between(const Context& context, const std::vector<NicDevice>& nics, const NicInfo& nic,
                const DeviceInfo& device) {
  Way way;
  if (const auto* const found = find_nic(nics, nic.name)) add_link(way.limits, *found, nic.port);
  add_pcie(way.limits, context, nic.name, nic.pci_address, device.pci_address);
  if (device.pci_address.empty()) return way;
  add_pcie(way.limits, context, std::string(to_string(device.type)), device.pci_address,
           nic.pci_address);
  way.distance = to_string(Distance::unknown);
  for (const NearNic& near : context.nics_near(device.pci_address, nics)) {
    if (near.name == nic.name) way.distance = to_string(near.distance);
  }
  return way;
}

double memcpy_bytes_per_second(std::uint64_t size_bytes, std::uint64_t span_bytes) {
  constexpr int kRounds = 3;
  constexpr std::uint64_t kBytesPerRound = 16 << 20;  // takes less than a millisecond
  constexpr std::uint64_t kMostCopies = 50'000;
  if (size_bytes == 0) return 0;
  const std::size_t span = std::max(size_bytes, span_bytes);
  CopyRange from(span, 0, std::byte{1});
  const std::uint64_t copies =
      std::clamp<std::uint64_t>(kBytesPerRound / size_bytes, 1, kMostCopies);
  double best = 0;
  for (const std::size_t offset : kOffsets) {
    CopyRange to(span, offset, std::byte{2});
    for (const Copy copy : kCopies) {
      for (int i = 0; i < kRounds; ++i)
        best =
            std::max(best, one_round(to.begin(), from.begin(), {copy, size_bytes, span, copies}));
    }
  }
  return best;
}

}  // namespace hbmwire::tools

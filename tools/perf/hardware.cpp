// SPDX-License-Identifier: MIT
#include "tools/perf/hardware.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "tools/common/stopwatch.hpp"

namespace hbmwire::tools::perf {
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

void add_pcie(std::vector<Limit>& limits, const Context& context, const std::string& of,
              const std::string& address, const std::string& towards) {
  const auto link = context.pci_link(address, towards);
  if (!link) return;
  limits.push_back({.kind = Limit::Kind::pcie,
                    .bytes_per_second = link->bytes_per_second(),
                    .what = fmt::format("PCIe of {} at {}, {:g} GT/s x{}", of, link->at,
                                        link->gigatransfers_per_second, link->lanes)});
}

// Not to be optimised away, since nobody reads the copy.
void keep(const std::byte* bytes) noexcept { asm volatile("" : : "r"(bytes) : "memory"); }

double one_round(std::vector<std::byte>& to, const std::vector<std::byte>& from,
                 std::size_t size_bytes, std::uint64_t copies) {
  const std::size_t last = from.size() - size_bytes;
  std::size_t at = 0;
  const Stopwatch stopwatch;
  for (std::uint64_t i = 0; i < copies; ++i) {
    std::memcpy(to.data() + at, from.data() + at, size_bytes);
    keep(to.data());
    at = at + size_bytes > last ? 0 : at + size_bytes;
  }
  const auto nanoseconds = static_cast<double>(std::max<std::uint64_t>(stopwatch.nanoseconds(), 1));
  return static_cast<double>(copies * size_bytes) / nanoseconds * 1e9;
}

}  // namespace

Way way_between(const Context& context, const NicInfo& nic, const DeviceInfo& device) {
  Way way;
  const auto nics = context.nics();
  if (nics) {
    if (const auto* const found = find_nic(*nics, nic.name)) add_link(way.limits, *found, nic.port);
  }
  add_pcie(way.limits, context, nic.name, nic.pci_address, device.pci_address);
  if (device.pci_address.empty()) return way;
  add_pcie(way.limits, context, std::string(to_string(device.type)), device.pci_address,
           nic.pci_address);
  way.distance = to_string(Distance::unknown);
  if (!nics) return way;
  for (const NearNic& near : context.nics_near(device.pci_address, *nics)) {
    if (near.name == nic.name) way.distance = to_string(near.distance);
  }
  return way;
}

double memcpy_bytes_per_second(std::uint64_t size_bytes, std::uint64_t span_bytes) {
  constexpr int kRounds = 5;
  constexpr std::uint64_t kBytesPerRound = 32 << 20;  // about a millisecond
  constexpr std::uint64_t kMostCopies = 200'000;
  if (size_bytes == 0) return 0;
  const std::size_t span = std::max(size_bytes, span_bytes);
  std::vector<std::byte> from(span, std::byte{1});
  std::vector<std::byte> to(span, std::byte{2});
  const std::uint64_t copies =
      std::clamp<std::uint64_t>(kBytesPerRound / size_bytes, 1, kMostCopies);
  double best = 0;
  for (int i = 0; i < kRounds; ++i) best = std::max(best, one_round(to, from, size_bytes, copies));
  return best;
}

}  // namespace hbmwire::tools::perf

// SPDX-License-Identifier: MIT
// Measures the cost of watching host memory (docs/registration.md). No device takes part.
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <vector>

#include "memory/host/address_watch.hpp"  // not a public header

namespace hbmwire::memory::host {
namespace {

constexpr int kTimes = 4001;

/// Maps memory, and touches its first page.
AddressRange map(std::uint64_t bytes) {
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  *static_cast<volatile char*>(memory) = 1;
  const auto address = reinterpret_cast<std::uint64_t>(memory);
  return {address, address + bytes};
}

void unmap(AddressRange range) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the address is known only as a number.
  ::munmap(reinterpret_cast<void*>(range.begin), range.end - range.begin);
}

double microseconds(const std::function<void()>& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
      .count();
}

/// `once` returns the time of the part that it measures; the rest of its work does not count.
void row(std::string_view name, const std::function<double()>& once) {
  std::vector<double> times(kTimes);
  std::generate(times.begin(), times.end(), once);
  std::sort(times.begin(), times.end());
  fmt::print("{:<44} median {:8.2f} us, tenth {:8.2f}, ninetieth {:8.2f}\n", name,
             times[times.size() / 2], times[times.size() / 10], times[times.size() * 9 / 10]);
}

/// A row for a watched mapping, which `once` unmaps.
void watched_row(AddressWatch& watch, std::string_view name, std::uint64_t bytes,
                 const std::function<double(AddressRange)>& once) {
  row(name, [&] {
    const AddressRange range = map(bytes);
    if (!watch.watch(range)) std::abort();
    const double time = once(range);
    watch.unwatch(range);
    return time;
  });
}

void rows(AddressWatch& watch, std::uint64_t bytes) {
  fmt::print("{} KiB\n", bytes >> 10U);
  const AddressRange kept = map(bytes);
  row("watch and unwatch", [&] {
    return microseconds([&] {
      (void)watch.watch(kept);
      watch.unwatch(kept);
    });
  });
  unmap(kept);
  row("munmap of unwatched memory", [&] {
    const AddressRange range = map(bytes);
    return microseconds([&] { unmap(range); });
  });
  watched_row(watch, "munmap of watched memory", bytes,
              [&](AddressRange range) { return microseconds([&] { unmap(range); }); });
  watched_row(watch, "take of what was unmapped", bytes, [&](AddressRange range) {
    AddressWatch::Cursor cursor = watch.now();
    unmap(range);
    return microseconds([&] { watch.take(cursor, [](AddressRange) {}); });
  });
}

int run() {
  const auto watch = AddressWatch::get();
  if (!watch) {
    fmt::print(stderr, "{}\n", describe(watch.error()));
    return 1;
  }
  for (const std::uint64_t bytes : {std::uint64_t{1} << 12U, std::uint64_t{1} << 20U})
    rows(**watch, bytes);
  // One call is too short for the clock, so a thousand are timed together.
  row("a thousand times changed()", [&] {
    return microseconds([&] {
      for (int i = 0; i != 1000; ++i) (void)(*watch)->changed();
    });
  });
  row("a thousand times unmapping_under_way()", [&] {
    return microseconds([&] {
      for (int i = 0; i != 1000; ++i) (void)(*watch)->unmapping_under_way();
    });
  });
  return 0;
}

}  // namespace
}  // namespace hbmwire::memory::host

int main() { return hbmwire::memory::host::run(); }

// SPDX-License-Identifier: MIT
#include "tools/doctor/pairs/open_memory.hpp"

#include <algorithm>

#include "tools/common/hardware.hpp"
#include "tools/doctor/pairs/timing.hpp"

namespace hbmwire::tools::doctor {

Result<OpenMemory> open_memory(const PlanMemory& memory) {
  ContextOptions options{.memory = {MemoryType::host}};
  if (memory.type != MemoryType::host) options.memory.push_back(memory.type);
  HBMWIRE_TRY_ASSIGN(Context context, Context::create(options));
  HBMWIRE_TRY_ASSIGN(auto domain, context.open(memory.type, {.device = memory.device}));
  HBMWIRE_TRY_ASSIGN(Allocation allocation, domain->allocate(2 * kWindowBytes));
  auto nics = context.nics().value_or(std::vector<NicDevice>());
  return OpenMemory{std::move(context), std::move(domain), std::move(allocation), std::move(nics)};
}

Possible possible_between(const OpenMemory& memory, const Nic& nic,
                          double memcpy_bytes_per_second) {
  Way way = way_between(memory.context, memory.nics, nic.info(), memory.domain->device());
  if (memcpy_bytes_per_second > 0) {
    way.limits.push_back({.kind = Limit::Kind::memcpy,
                          .bytes_per_second = memcpy_bytes_per_second,
                          .what = "one memcpy by one CPU"});
  }
  Possible possible{.distance = way.distance};
  const auto least = std::ranges::min_element(way.limits, {}, &Limit::bytes_per_second);
  if (least == way.limits.end()) return possible;
  possible.bytes_per_second = least->bytes_per_second;
  possible.limit = least->what;
  return possible;
}

std::optional<PairError> refusal_of(const Region& region) {
  for (const PathTried& tried : region.explain()) {
    if (tried.refusal) return error_of(*tried.refusal);
  }
  return std::nullopt;
}

PairError wrong_bytes(const std::string& by, const std::string& memory, const char* what,
                      const Comparison& found) {
  PairError error = error_of(make_error(Errc::data_mismatch, Stage::verify, what));
  error.text = fmt::format(
      "verify {}: after the {} of {} memory, byte {} of {} is {:#04x} and should be {:#04x} ({} "
      "wrong); the NIC or the way to the memory damages data: update the NIC's firmware, and try "
      "it in another slot",
      by, what, memory, found.offset_bytes, found.bytes, found.got, found.expected,
      found.wrong_bytes);
  return error;
}

}  // namespace hbmwire::tools::doctor

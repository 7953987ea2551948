// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "counters/reader.hpp"

namespace {

using namespace hbmwire;

void must(bool is_so) {
  if (!is_so) std::abort();
}

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](char each) { return each >= ' ' && each <= '~'; });
}

void check(const Counters& counters) {
  for (const TransferCounters& each : counters.transfers)
    must(is_printable(each.nic) && is_printable(each.peer) && !to_string(each.labels.kind).empty());
  for (const FailureCounters& each : counters.failures)
    must(is_printable(each.nic) && is_printable(each.peer) && each.operations != 0);
  for (const TransferTimesHistogram& each : counters.times) must(each.sum.count() >= 0);
  for (std::size_t i = 0; i < counters.transfers.size(); ++i) {
    const TransferCounters& one = counters.transfers[i];
    const auto is_same = [&](const TransferCounters& other) {
      return other.labels == one.labels && other.nic == one.nic && other.peer == one.peer;
    };
    must(std::ranges::count_if(counters.transfers, is_same) == 1);
  }
}

}  // namespace

/// Input: the bytes of a file of counters.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  static_cast<void>(counters::changes_of(bytes));
  const std::uint32_t process = counters::process_of(bytes);
  const auto all = counters::read_counters(bytes);
  if (!all) {
    must(all.error().code == Errc::protocol && all.error().stage == Stage::probe);
    return 0;
  }
  must(all->process == process && is_printable(all->program));
  must(all->since.time_since_epoch().count() >= 0);
  check(all->counters);
  for (const counters::Owner& owner : {counters::Owner{.context = 1}, counters::Owner{.worker = 1},
                                       counters::Owner{.endpoint = 1}}) {
    const auto some = counters::read_counters(bytes, owner);
    must(some.has_value());
    check(some->counters);
    must(some->counters.transfers.size() <= all->counters.transfers.size());
  }
  return 0;
}

// SPDX-License-Identifier: MIT
#include "tools/stat/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "tools/common/columns.hpp"
#include "tools/common/failure.hpp"

namespace hbmwire::tools::stats {
namespace {

constexpr std::uint64_t kMostDigits = 9'999'999'999;  // fits ten columns

std::string memory_text(const TransferLabels& labels) {
  return fmt::format("{}->{}", to_string(labels.local), remote_name(labels.remote));
}

std::string count_text(std::uint64_t count) {
  return count <= kMostDigits ? fmt::format("{}", count) : fmt::format("{}M", count / 1'000'000);
}

/// "3 endpoints", "1 endpoint".
std::string plural(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string_view split_name(SplitBy split) { return split == SplitBy::nic ? "NIC" : "PEER"; }

std::vector<std::string> transfer_lines(const Sample& sample, SplitBy split) {
  const std::string second_name(split == SplitBy::path ? "PROGRAM" : split_name(split));
  // Columns of words are aligned to the left.
  Columns columns({"PROCESS", second_name, "KIND", "PATH", "MEMORY", "OPERATIONS", "BYTES", "RATE"},
                  {1, 2, 3, 4});
  for (const ProcessSample& process : sample.processes) {
    for (const Row& row : rows_of(process, split)) {
      const std::string& second = split == SplitBy::path  ? process.now.program
                                  : split == SplitBy::nic ? row.nic
                                                          : row.peer;
      columns.add({fmt::format("{}", process.now.process), second.empty() ? "-" : second,
                   std::string(to_string(row.labels.kind)), std::string(name_of(row.labels.path)),
                   memory_text(row.labels), count_text(row.operations), bytes_text(row.bytes),
                   rate_text(row.bytes_per_second)});
    }
  }
  return columns.lines();
}

/// "timed_out 3, cancelled 1", over all NICs and peers; empty if nothing failed.
std::string failures_text(const Counters& counters) {
  std::map<Errc, std::uint64_t> by_code;
  for (const FailureCounters& each : counters.failures) by_code[each.code] += each.operations;
  std::string text;
  for (const auto& [code, operations] : by_code)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", code_name(code), operations);
  return text;
}

std::vector<std::string> process_lines(const ProcessSample& process) {
  const Counters& counters = process.now.counters;
  const RegistrationCounters& memory = counters.registrations;
  std::vector<std::string> lines{fmt::format("{} {}{}", process.now.process, process.now.program,
                                             process.ended ? " (ended)" : "")};
  if (const std::string failed = failures_text(counters); !failed.empty())
    lines.push_back("  failed         " + failed);
  lines.push_back(fmt::format("  transfers      {} begun, {} under way, {} queued, {} for credit",
                              counters.started, counters.under_way, counters.queued,
                              plural(counters.credit_waits, "wait")));
  lines.push_back(fmt::format("  connections    {}, {} failed, {} to connect again",
                              plural(counters.endpoints, "endpoint"), counters.endpoints_failed,
                              plural(counters.retries, "attempt")));
  if (memory.registrations != 0 || memory.hits + memory.misses != 0) {
    lines.push_back(fmt::format(
        "  registrations  {} now ({}), {} ever; look-ups: {}, {} registered anew, {} evicted",
        memory.live, bytes_text(memory.live_bytes), memory.registrations,
        plural(memory.hits, "hit"), memory.misses, memory.evictions));
  }
  for (const Times& times : times_of(process)) {
    lines.push_back(fmt::format("  times          {} {} {}: median {}, p99 {} ({} timed)",
                                to_string(times.labels.kind), name_of(times.labels.path),
                                memory_text(times.labels), time_text(times.median),
                                time_text(times.percentile_99), times.count));
  }
  return lines;
}

/// Errors of NICs, a line for each port with errors.
std::vector<std::string> nic_lines(const Sample& sample) {
  std::map<std::pair<std::string, unsigned>, std::string> ports;
  for (const NicSample& each : sample.nics) {
    if (each.now.value == 0 || !counts_errors(each.now.name)) continue;
    std::string& text = ports[{each.now.nic, each.now.port}];
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", each.now.name, each.now.value);
    if (each.before && each.now.value > *each.before)
      text += fmt::format(" (+{})", each.now.value - *each.before);
  }
  std::vector<std::string> lines;
  for (const auto& [port, text] : ports) {
    lines.push_back(
        fmt::format("NIC {} port {}, errors of all processes since its driver was loaded",
                    port.first, port.second));
    lines.push_back("  " + text);
  }
  return lines;
}

}  // namespace

std::vector<std::string> table_lines(const Sample& sample, SplitBy split) {
  std::vector<std::string> lines;
  const auto add = [&lines](std::vector<std::string> more) {
    lines.insert(lines.end(), more.begin(), more.end());
  };
  if (sample.processes.empty()) {
    lines.emplace_back("no process publishes its counters (HBMWIRE_STATS=yes)");
  } else {
    add(transfer_lines(sample, split));
  }
  for (const ProcessSample& process : sample.processes) add(process_lines(process));
  for (const UnreadableProcess& each : sample.unreadable)
    lines.push_back(fmt::format("{}: {}", each.process, describe_with_hint(each.error)));
  add(nic_lines(sample));
  return lines;
}

std::string bytes_text(std::uint64_t bytes) {
  if (bytes <= kMostDigits) return fmt::format("{}", bytes);
  constexpr std::array<std::string_view, 4> kUnits{"GiB", "TiB", "PiB", "EiB"};
  double amount = static_cast<double>(bytes) / (1U << 30U);
  std::size_t unit = 0;
  for (; amount >= 10'000 && unit + 1 < kUnits.size(); ++unit) amount /= 1024;
  return fmt::format("{:.1f} {}", amount, kUnits[unit]);
}

std::string rate_text(double bytes_per_second) {
  if (bytes_per_second <= 0) return "-";
  const double mebibytes = bytes_per_second / (1U << 20U);
  if (mebibytes < 99'999) return fmt::format("{:.1f} MiB/s", mebibytes);
  return fmt::format("{:.1f} GiB/s", mebibytes / 1024);
}

std::string time_text(std::chrono::nanoseconds time) {
  const auto count = static_cast<double>(time.count());
  if (count < 1e3) return fmt::format("{} ns", time.count());
  if (count < 1e6) return fmt::format("{:.1f} us", count / 1e3);
  if (count < 1e9) return fmt::format("{:.1f} ms", count / 1e6);
  return fmt::format("{:.1f} s", count / 1e9);
}

}  // namespace hbmwire::tools::stats

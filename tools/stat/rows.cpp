// SPDX-License-Identifier: MIT
#include "tools/stat/rows.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

namespace hbmwire::tools::stats {
namespace {

struct Sum {
  std::uint64_t operations = 0;
  std::uint64_t bytes = 0;
};

using Key =
    std::tuple<TransferKind, Path, MemoryType, std::optional<MemoryType>, std::string, std::string>;

std::map<Key, Sum> sums_of(const Counters& counters, SplitBy split) {
  const bool by_nic = split == SplitBy::nic || split == SplitBy::all;
  const bool by_peer = split == SplitBy::peer || split == SplitBy::all;
  std::map<Key, Sum> sums;
  for (const TransferCounters& each : counters.transfers) {
    const TransferLabels& labels = each.labels;
    Sum& sum = sums[{labels.kind, labels.path, labels.local, labels.remote, by_nic ? each.nic : "",
                     by_peer ? each.peer : ""}];
    sum.operations += each.operations;
    sum.bytes += each.bytes;
  }
  return sums;
}

double rate_of(std::uint64_t now, std::uint64_t before, double seconds) {
  if (seconds <= 0 || now < before) return 0;
  return static_cast<double>(now - before) / seconds;
}

/// `times` minus the earlier ones.
TransferTimesHistogram difference(TransferTimesHistogram times,
                                  const std::optional<Counters>& before) {
  if (!before) return times;
  const auto old = std::ranges::find(before->times, times.labels, &TransferTimesHistogram::labels);
  if (old == before->times.end()) return times;
  for (std::size_t i = 0; i < kTimeBuckets; ++i)
    times.transfers[i] -= std::min(times.transfers[i], old->transfers[i]);
  times.sum -= std::min(times.sum, old->sum);
  return times;
}

// Counters of the InfiniBand specification, and hw_counters of mlx5 and others. Errors of
// completions (req_cqe_error and others) are left out, since closing a queue pair counts there,
// too.
constexpr std::array<std::string_view, 33> kErrorCounters{"VL15_dropped",
                                                          "duplicate_request",
                                                          "excessive_buffer_overrun_errors",
                                                          "implied_nak_seq_err",
                                                          "link_downed",
                                                          "link_error_recovery",
                                                          "local_ack_timeout_err",
                                                          "local_link_integrity_errors",
                                                          "out_of_buffer",
                                                          "out_of_sequence",
                                                          "packet_seq_err",
                                                          "port_rcv_constraint_errors",
                                                          "port_rcv_errors",
                                                          "port_rcv_remote_physical_errors",
                                                          "port_rcv_switch_relay_errors",
                                                          "port_xmit_constraint_errors",
                                                          "port_xmit_discards",
                                                          "req_remote_access_errors",
                                                          "req_remote_invalid_request",
                                                          "req_transport_retries_exceeded",
                                                          "req_rnr_retries_exceeded",
                                                          "resp_local_length_error",
                                                          "resp_remote_access_errors",
                                                          "rnr_nak_retry_err",
                                                          "roce_adp_retrans",
                                                          "roce_adp_retrans_to",
                                                          "roce_slow_restart",
                                                          "roce_slow_restart_cnps",
                                                          "rx_icrc_encapsulated",
                                                          "rx_read_requests_dropped",
                                                          "symbol_error",
                                                          "tx_retransmits",
                                                          "unrecoverable_err"};

}  // namespace

std::vector<Row> rows_of(const ProcessSample& process, SplitBy split) {
  const auto before = process.before ? sums_of(*process.before, split) : std::map<Key, Sum>{};
  std::vector<Row> rows;
  for (const auto& [key, sum] : sums_of(process.now.counters, split)) {
    const auto old = before.find(key);
    const Sum then = old != before.end() ? old->second : Sum{};
    const auto& [kind, path, local, remote, nic, peer] = key;
    rows.push_back(
        {.labels = {.kind = kind, .path = path, .local = local, .remote = remote},
         .nic = nic,
         .peer = peer,
         .operations = sum.operations,
         .bytes = sum.bytes,
         .operations_per_second = rate_of(sum.operations, then.operations, process.seconds),
         .bytes_per_second = rate_of(sum.bytes, then.bytes, process.seconds)});
  }
  return rows;
}

std::vector<Times> times_of(const ProcessSample& process) {
  std::vector<Times> all;
  for (const TransferTimesHistogram& each : process.now.counters.times) {
    const TransferTimesHistogram times = difference(each, process.before);
    const std::uint64_t count = times.count();
    if (count == 0) continue;
    all.push_back({.labels = times.labels,
                   .count = count,
                   .median = quantile(times, 0.5),
                   .percentile_99 = quantile(times, 0.99)});
  }
  return all;
}

std::chrono::nanoseconds quantile(const TransferTimesHistogram& times, double share) {
  const double rank = share * static_cast<double>(times.count());
  double below = 0;
  std::chrono::nanoseconds lower{0};
  for (std::size_t i = 0; i + 1 < kTimeBuckets; ++i) {
    const auto here = static_cast<double>(times.transfers[i]);
    const std::chrono::nanoseconds upper = time_bucket_bound(i);
    if (here > 0 && below + here >= rank) {
      const double part = (rank - below) / here * static_cast<double>((upper - lower).count());
      return lower + std::chrono::nanoseconds(std::llround(part));
    }
    below += here;
    lower = upper;
  }
  return times.transfers[kTimeBuckets - 1] == 0 ? std::chrono::nanoseconds(0) : lower;
}

bool counts_errors(std::string_view nic_counter) noexcept {
  return std::ranges::find(kErrorCounters, nic_counter) != kErrorCounters.end();
}

std::string_view code_name(Errc code) noexcept {
  switch (code) {
    case Errc::invalid_argument:
      return "invalid_argument";
    case Errc::not_found:
      return "not_found";
    case Errc::not_supported:
      return "not_supported";
    case Errc::permission_denied:
      return "permission_denied";
    case Errc::busy:
      return "busy";
    case Errc::exhausted:
      return "exhausted";
    case Errc::timed_out:
      return "timed_out";
    case Errc::peer_failed:
      return "peer_failed";
    case Errc::protocol:
      return "protocol";
    case Errc::data_mismatch:
      return "data_mismatch";
    case Errc::cancelled:
      return "cancelled";
    case Errc::system:
      return "system";
  }
  return "unknown";
}

std::string_view remote_name(std::optional<MemoryType> remote) noexcept {
  return remote ? to_string(*remote) : "unknown";
}

}  // namespace hbmwire::tools::stats

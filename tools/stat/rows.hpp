// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hbmwire/counters.hpp"

#include "tools/stat/sample.hpp"

// Sums, rates and quantiles of a sample.
namespace hbmwire::tools::stats {

/// The label by which rows of a process are split, besides kind, path and types of memory.
enum class SplitBy : std::uint8_t { path, nic, peer, all };

/// The transfers of a process that share these labels.
struct Row {
  TransferLabels labels;
  std::string nic;                   ///< set for SplitBy::nic and SplitBy::all
  std::string peer;                  ///< set for SplitBy::peer and SplitBy::all
  std::uint64_t operations = 0;      ///< since the process began
  std::uint64_t bytes = 0;           ///< bytes of these operations
  double operations_per_second = 0;  ///< during the sample
  double bytes_per_second = 0;
};

/// Sorted by kind, path, types of memory, NIC and peer.
[[nodiscard]] std::vector<Row> rows_of(const ProcessSample& process, SplitBy split);

/// The times of one series since the sample before.
struct Times {
  TransferLabels labels;
  std::uint64_t count = 0;
  std::chrono::nanoseconds median{0};
  std::chrono::nanoseconds percentile_99{0};
};

/// Leaves out series without timed transfers.
[[nodiscard]] std::vector<Times> times_of(const ProcessSample& process);

/// The time that `share` of all timed transfers did not exceed. Computed like histogram_quantile()
/// of Prometheus: times are assumed to be spread evenly in their bucket, and those in the last
/// bucket to be its lower bound. 0 if no transfer was timed.
[[nodiscard]] std::chrono::nanoseconds quantile(const TransferTimesHistogram& times, double share);

/// Whether this counter of a NIC counts errors: packets that were lost, refused or sent again.
[[nodiscard]] bool counts_errors(std::string_view nic_counter) noexcept;

/// The label for an error: "timed_out" and so on.
[[nodiscard]] std::string_view code_name(Errc code) noexcept;

/// "gaudi"; "unknown" if this end did not learn the peer's type.
[[nodiscard]] std::string_view remote_name(std::optional<MemoryType> remote) noexcept;

}  // namespace hbmwire::tools::stats

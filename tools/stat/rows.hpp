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

/// The label that tells rows of a process apart, besides kind, path and types of memory.
enum class SplitBy : std::uint8_t { path, nic, peer, all };

/// Transfers of a process that have these in common.
struct Row {
  TransferLabels labels;
  std::string nic;                   ///< SplitBy::nic and ::all
  std::string peer;                  ///< SplitBy::peer and ::all
  std::uint64_t operations = 0;      ///< since the process began
  std::uint64_t bytes = 0;           ///< of these
  double operations_per_second = 0;  ///< in the time of the sample
  double bytes_per_second = 0;
};

/// By kind, path, types of memory, NIC and peer.
[[nodiscard]] std::vector<Row> rows_of(const ProcessSample& process, SplitBy split);

/// The times of one series between the sample and the one before.
struct Times {
  TransferLabels labels;
  std::uint64_t count = 0;
  std::chrono::nanoseconds median{0};
  std::chrono::nanoseconds percentile_99{0};
};

/// Without those of which no transfer was timed.
[[nodiscard]] std::vector<Times> times_of(const ProcessSample& process);

/// The time that `share` of all timed transfers took at most. As histogram_quantile() of Prometheus
/// has it: times are taken to be spread evenly in their bucket, and those of the last one to be its
/// lower bound. 0 where none was timed.
[[nodiscard]] std::chrono::nanoseconds quantile(const TransferTimesHistogram& times, double share);

/// Whether this counter of a NIC counts errors: what is lost, refused or sent again.
[[nodiscard]] bool counts_errors(std::string_view nic_counter) noexcept;

/// "timed_out" and so on, for the same reason.
[[nodiscard]] std::string_view code_name(Errc code) noexcept;

/// "gaudi"; "unknown": this end did not learn the peer's.
[[nodiscard]] std::string_view remote_name(std::optional<MemoryType> remote) noexcept;

}  // namespace hbmwire::tools::stats

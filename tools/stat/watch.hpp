// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "hbmwire/counters.hpp"

#include "tools/common/failure.hpp"
#include "tools/stat/sample.hpp"

namespace hbmwire::tools::stats {

/// Follows processes from sample to sample. Keeps their counters open, so that a process that ended
/// meanwhile appears in one more sample.
class Watch {
 public:
  /// Follows these processes; an empty set means all that this user may read.
  explicit Watch(std::set<std::uint32_t> wanted) : wanted_(std::move(wanted)) {}

  /// Takes a sample of all of them. Errors: /proc cannot be read; in the first sample also: a
  /// wanted process does not exist.
  Outcome<Sample> look();

  /// Whether a process of the last sample is still running.
  [[nodiscard]] bool has_running() const noexcept { return !known_.empty(); }

 private:
  using Clock = std::chrono::steady_clock;

  struct Known {
    PublishedProcess process;
    Counters counters;
    Clock::time_point seen;
    bool found;  // in the sample that is being taken
  };

  /// Names a process by its id and the time when it began to count, since after execve(2) another
  /// program has the same id.
  using Name = std::pair<std::uint32_t, std::int64_t>;

  /// The processes that run now and are wanted.
  Outcome<std::vector<PublishedProcess>> find();
  void add_found(PublishedProcess process, Sample& sample);
  void add_ended(Sample& sample);
  void add_nics(Sample& sample);

  std::set<std::uint32_t> wanted_;
  bool first_ = true;
  std::map<Name, Known> known_;
  std::map<std::string, std::uint64_t> nic_counters_;  // values of the last sample, by name
};

}  // namespace hbmwire::tools::stats

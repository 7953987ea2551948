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

/// Follows processes from sample to sample. It holds their counters open, so that those of a
/// process that has ended meanwhile are in one more sample.
class Watch {
 public:
  /// Looks at these processes; none: at all that this user may look at.
  explicit Watch(std::set<std::uint32_t> wanted) : wanted_(std::move(wanted)) {}

  /// All of them, now. Errors: /proc can't be read; in the first sample: a wanted process is not
  /// there.
  Outcome<Sample> look();

  /// Whether the last sample had a process that has not ended.
  [[nodiscard]] bool has_running() const noexcept { return !known_.empty(); }

 private:
  using Clock = std::chrono::steady_clock;

  struct Known {
    PublishedProcess process;
    Counters counters;
    Clock::time_point seen;
    bool found;
  };

  /// Its id, and when it began to count: the id alone is that of another program after execve(2).
  using Name = std::pair<std::uint32_t, std::int64_t>;

  Outcome<std::vector<PublishedProcess>> find();
  void add_found(PublishedProcess process, Sample& sample);
  void add_ended(Sample& sample);
  void add_nics(Sample& sample);

  std::set<std::uint32_t> wanted_;
  bool first_ = true;
  std::map<Name, Known> known_;
  std::map<std::string, std::uint64_t> nic_counters_;
};

}  // namespace hbmwire::tools::stats

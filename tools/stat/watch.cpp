// SPDX-License-Identifier: MIT
#include "tools/stat/watch.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace hbmwire::tools::stats {
namespace {

double seconds_of(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

std::set<std::string> nics_of(const Sample& sample) {
  std::set<std::string> nics;
  for (const ProcessSample& process : sample.processes) {
    for (const TransferCounters& each : process.now.counters.transfers) nics.insert(each.nic);
    for (const FailureCounters& each : process.now.counters.failures) nics.insert(each.nic);
  }
  return nics;
}

/// Whether a name may be a part of a path. It comes from another process.
bool is_nic_name(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.find('/') == std::string::npos;
}

}  // namespace

Outcome<Sample> Watch::look() {
  Sample sample{
      .time = std::chrono::system_clock::now(), .processes = {}, .unreadable = {}, .nics = {}};
  for (auto& [name, known] : known_) known.found = false;
  HBMWIRE_TRY_ASSIGN(auto found, find());
  for (PublishedProcess& process : found) add_found(std::move(process), sample);
  add_ended(sample);
  std::ranges::stable_sort(sample.processes, {},
                           [](const ProcessSample& each) { return each.now.process; });
  add_nics(sample);
  first_ = false;
  return sample;
}

Outcome<std::vector<PublishedProcess>> Watch::find() {
  if (wanted_.empty()) {
    HBMWIRE_TRY_ASSIGN(auto all, PublishedProcess::find_all());
    return all;
  }
  std::vector<PublishedProcess> all;
  for (const std::uint32_t process : wanted_) {
    auto found = PublishedProcess::find(process);
    if (found) {
      all.push_back(std::move(*found));
    } else if (first_) {
      return tl::make_unexpected(Failure(found.error()));
    }
  }
  return all;
}

void Watch::add_found(PublishedProcess process, Sample& sample) {
  auto read = process.read();
  if (!read) {
    sample.unreadable.push_back({.process = process.process(), .error = read.error()});
    return;
  }
  const Clock::time_point now = Clock::now();
  const auto since =
      std::chrono::duration_cast<std::chrono::nanoseconds>(read->since.time_since_epoch());
  ProcessSample one{.now = std::move(*read), .before = {}, .seconds = 0, .ended = false};
  const auto [at, is_new] = known_.try_emplace(
      Name(one.now.process, since.count()),
      Known{
          .process = std::move(process), .counters = one.now.counters, .seen = now, .found = true});
  Known& known = at->second;
  if (is_new) {
    one.seconds = seconds_of(sample.time - one.now.since);
  } else {
    one.seconds = seconds_of(now - known.seen);
    one.before = std::exchange(known.counters, one.now.counters);
    known.seen = now;
    known.found = true;
  }
  sample.processes.push_back(std::move(one));
}

/// Adds, once, the processes that were not found again.
void Watch::add_ended(Sample& sample) {
  for (auto at = known_.begin(); at != known_.end();) {
    Known& known = at->second;
    if (known.found) {
      ++at;
      continue;
    }
    if (auto read = known.process.read()) {
      sample.processes.push_back({.now = std::move(*read),
                                  .before = std::move(known.counters),
                                  .seconds = seconds_of(Clock::now() - known.seen),
                                  .ended = true});
    }
    at = known_.erase(at);
  }
}

void Watch::add_nics(Sample& sample) {
  std::map<std::string, std::uint64_t> counters;
  for (const std::string& nic : nics_of(sample)) {
    if (!is_nic_name(nic)) continue;
    for (NicCounter& each : nic_counters(nic)) {
      const std::string name = fmt::format("{}/{}/{}", each.nic, each.port, each.name);
      const auto before = nic_counters_.find(name);
      NicSample one{.now = std::move(each), .before = {}};
      if (before != nic_counters_.end()) one.before = before->second;
      counters[name] = one.now.value;
      sample.nics.push_back(std::move(one));
    }
  }
  nic_counters_ = std::move(counters);
}

}  // namespace hbmwire::tools::stats

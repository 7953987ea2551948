// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "tools/doctor/checks/finding.hpp"
#include "tools/doctor/pairs/pair.hpp"

// Values for the tests of the doctor's report.
namespace hbmwire::tools::doctor {

inline Pair good_pair(const std::string& memory, const std::string& by) {
  Pair pair;
  pair.memory = memory;
  pair.device = memory == "host" ? "host" : "gaudi2 0000:33:00.0";
  pair.device_address = memory == "host" ? "" : "0000:33:00.0";
  pair.by = by;
  pair.by_address = "0000:3a:00." + by.substr(by.size() - 1);
  pair.outcome = memory == "host" ? PairOutcome::host : PairOutcome::zero_copy;
  pair.path = memory == "host" ? "host memory" : "zero-copy dma-buf";
  pair.verified_bytes = 24 << 20;
  pair.write_bytes_per_second = 12e9;
  pair.read_bytes_per_second = 11.5e9;
  pair.latency_ns = 1500;
  pair.possible_bytes_per_second = 12.5e9;
  pair.limit = "link of " + by + ":1, 100 Gb/s";
  return pair;
}

inline Pair failed_pair(const std::string& memory, const std::string& by, const PairError& error) {
  Pair pair = good_pair(memory, by);
  pair.outcome = PairOutcome::refused;
  pair.error = error;
  return pair;
}

inline Pair slow_pair(const std::string& memory, const std::string& by, double bytes_per_second) {
  Pair pair = good_pair(memory, by);
  pair.outcome = PairOutcome::slow;
  pair.write_bytes_per_second = pair.read_bytes_per_second = bytes_per_second;
  return pair;
}

inline Pairs pairs_with(std::vector<Pair> list) {
  Pairs pairs;
  pairs.pairs = std::move(list);
  pairs.nics = 1;
  pairs.accelerators = 1;
  return pairs;
}

inline Finding finding_of(const std::string& check, const std::string& subject, Verdict verdict) {
  return {.check = check,
          .subject = subject,
          .verdict = verdict,
          .source = "/sys",
          .found = "0",
          .wanted = "1",
          .remedy = "mend it"};
}

}  // namespace hbmwire::tools::doctor

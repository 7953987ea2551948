// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/common/machine_state.hpp"

namespace hbmwire::bench {

/// How much is measured.
struct Effort {
  unsigned pairs = 21;    // that are kept, of a row
  unsigned chunks = 200;  // timed in each slice
  bool quick = false;
};

/// The two sides of a row. Each call measures a slice of some milliseconds and gives nanoseconds an
/// operation.
class Contest {
 public:
  Contest() = default;
  Contest(const Contest&) = delete;
  Contest& operator=(const Contest&) = delete;
  Contest(Contest&&) = delete;
  Contest& operator=(Contest&&) = delete;
  virtual ~Contest() = default;

  virtual double ours() = 0;
  virtual double theirs() = 0;
};

enum class Better : std::uint8_t { higher, lower };

struct Row {
  std::string name;    // for --row
  std::string ours;    // what is measured
  std::string theirs;  // what it is compared with
  Better better = Better::higher;
  std::optional<double> limit = {};  // "at least" or "at most"
  std::optional<double> aim = {};
  std::uint64_t bytes = 0;  // of an operation, where GB/s are told; 0: ns are
  bool factor = false;      // neither: what is measured is a quotient by itself
  bool difference = false;  // what counts is by how many ns ours takes longer, not the ratio
  bool renewed = false;     // after every third pair both sides are made anew, with new processes:
                            // what lies where in memory changes a figure by some per cent
  std::function<std::unique_ptr<Contest>(const Effort&)> make = {};
};

struct Result {
  double ours_ns = 0;    // medians of the pairs that were kept
  double theirs_ns = 0;  // of an operation
  double ratio = 0;      // median of the pairs' ratios; of speeds where higher is better. Or of
                         // their differences, Row::difference
  double lowest = 0;     // quartiles of the same
  double highest = 0;
  unsigned kept = 0;
  unsigned dropped = 0;
  State fastest;  // the states of the machine in which they were taken
  State slowest;

  [[nodiscard]] bool meets(const Row& row, double bar) const {
    return row.better == Better::higher ? ratio >= bar : ratio <= bar;
  }
};

/// Measures both sides in turn, in short slices, until enough pairs are kept: a pair around which
/// the CPU's speed or the way between the CPUs changed says nothing. In processes of its own.
Result run(const Row& row, const Effort& effort);

}  // namespace hbmwire::bench

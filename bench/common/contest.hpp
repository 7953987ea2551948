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

/// How much to measure.
struct Effort {
  unsigned pairs = 21;    // pairs to keep for each row
  unsigned chunks = 200;  // pieces of work that each slice times, one by one
  bool quick = false;
};

/// The two sides of a row. Each call measures a slice of some milliseconds, and returns nanoseconds
/// for one operation.
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
  std::string ours;    // the measured operation
  std::string theirs;  // the operation that it is compared with
  Better better = Better::higher;
  std::optional<double> limit = {};  // "at least" or "at most"
  std::optional<double> aim = {};
  std::uint64_t bytes = 0;  // of an operation, for GB/s; 0: the row shows ns
  bool factor = false;      // the measured value is itself a quotient, neither ns nor GB/s
  bool difference = false;  // compares by how many ns ours takes longer, not by the ratio
  bool renewed = false;     // makes both sides anew after every third pair, with new processes,
                            // since the layout of memory changes a figure by some per cent
  std::function<std::unique_ptr<Contest>(const Effort&)> make = {};
};

struct Result {
  double ours_ns = 0;    // medians of the pairs that were kept,
  double theirs_ns = 0;  // in ns for one operation
  double ratio = 0;      // median of the pairs' ratios (of speeds where higher is better), or of
                         // their differences (Row::difference)
  double lowest = 0;     // quartiles of the same
  double highest = 0;
  unsigned kept = 0;
  unsigned dropped = 0;
  State fastest;  // the states of the machine during these pairs
  State slowest;

  [[nodiscard]] bool meets(const Row& row, double bar) const {
    return row.better == Better::higher ? ratio >= bar : ratio <= bar;
  }
};

/// Measures both sides in turn, in short slices, until enough pairs are kept. A pair is dropped if
/// the speed of the CPU, or of the way between the CPUs, changed around it. Runs in processes of
/// its own.
Result run(const Row& row, const Effort& effort);

}  // namespace hbmwire::bench

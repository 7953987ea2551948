// SPDX-License-Identifier: MIT
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <tuple>

#include "tools/perf/all/plan.hpp"

/// Runs as `hbmwire perf --all` gives them, for tests of their comparisons and outputs.
namespace hbmwire::tools::perf::all {

inline constexpr double kRate = 10e9;

inline End end_of_rank(std::uint32_t rank, std::size_t nic) {
  return {.rank = rank,
          .host = fmt::format("n{}", rank),
          .nic = fmt::format("mlx5_{}:1", nic),
          .memory = "gaudi",
          .device = fmt::format("gaudi2 0000:{:02x}:00.0", nic + 0x33),
          .path = "zero-copy dma-buf",
          .distance = "PIX",
          .link_bytes_per_second = 12.5e9};
}

/// A run whose plan is made, without a figure.
inline MatrixRun planned_run(std::uint32_t ranks, std::size_t nics_of_rank) {
  MatrixRun run{
      .ranks = ranks, .launcher = "mpirun", .message_bytes = 1 << 20, .seconds_per_cell = 0.5};
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t nic = 0; nic < nics_of_rank; ++nic) run.ends.push_back(end_of_rank(rank, nic));
  }
  static_cast<void>(make_plan(run));
  return run;
}

inline std::vector<Cell>& cells_in(MatrixRun& run, Phase phase) {
  return const_cast<std::vector<Cell>&>(cells_of(run, phase));
}

/// Every cell is measured, and has the same rate.
inline MatrixRun equal_run(std::uint32_t ranks, std::size_t nics_of_rank = 1) {
  MatrixRun run = planned_run(ranks, nics_of_rank);
  for (const Phase phase : kPhases) {
    for (Cell& cell : cells_in(run, phase)) {
      cell.state = CellState::measured;
      cell.bytes_per_second = kRate;
      cell.verified_bytes = 1 << 20;
      cell.path = "RDMA write, zero-copy";
    }
  }
  return run;
}

inline Cell& pair_of(MatrixRun& run, std::size_t source, std::size_t target) {
  return *std::ranges::find_if(
      run.pairs, [&](const Cell& cell) { return cell.source == source && cell.target == target; });
}

inline void fail_cell(Cell& cell, CellState state, const std::string& problem) {
  cell.state = state;
  cell.bytes_per_second = 0;
  cell.verified_bytes = 0;
  cell.path.clear();
  cell.problem = problem;
}

/// Cells from and to the rank fail in all phases.
inline void lose_rank(MatrixRun& run, std::uint32_t rank, CellState state,
                      const std::string& problem) {
  for (const Phase phase : kPhases) {
    for (Cell& cell : cells_in(run, phase)) {
      if (run.ends[cell.source].rank == rank || run.ends[cell.target].rank == rank)
        fail_cell(cell, state, problem);
    }
  }
}

/// Multiplies the rates of all pairs from and to the end by `share`.
inline void slow_down(MatrixRun& run, std::size_t end, double share) {
  for (Cell& cell : run.pairs) {
    if (cell.source == end || cell.target == end) cell.bytes_per_second *= share;
  }
}

/// Texts of valid UTF-8, with all that a format may trip over.
inline std::string odd_text(std::mt19937_64& random) {
  static const std::vector<std::string> parts{"a",
                                              "n7",
                                              " ",
                                              ",",
                                              "\"",
                                              "\n",
                                              "\r",
                                              "\t",
                                              "<b>",
                                              "&amp;",
                                              "'",
                                              "\\",
                                              "\x1b[31m",
                                              "é",
                                              "{}",
                                              "]]>",
                                              std::string(1, '\0')};
  std::string text;
  for (auto left = random() % 8; left > 0; --left) text += parts[random() % parts.size()];
  return text;
}

/// Rates of all magnitudes, states of all kinds, odd texts.
inline MatrixRun random_run(std::mt19937_64& random) {
  MatrixRun run = planned_run(1 + static_cast<std::uint32_t>(random() % 6),
                              1 + static_cast<std::size_t>(random() % 3));
  const auto rate = [&] {
    std::uniform_real_distribution<double> digits(1, 10);
    return digits(random) * std::pow(10.0, static_cast<double>(random() % 25) - 12);
  };
  run.launcher = odd_text(random);
  run.emulated = random() % 2 == 0;
  run.verified = random() % 2 == 0;
  run.message_bytes = random();
  run.seconds_per_cell = rate();
  for (End& end : run.ends) {
    for (std::string End::*field :
         {&End::host, &End::nic, &End::memory, &End::device, &End::path, &End::distance})
      end.*field = odd_text(random);
    end.link_bytes_per_second = random() % 3 == 0 ? 0 : rate();
    end.facts = std::vector<std::string>(random() % 3, odd_text(random));
  }
  for (const Phase phase : kPhases) {
    for (Cell& cell : cells_in(run, phase)) {
      cell.state = static_cast<CellState>(random() % 5);
      cell.bytes_per_second = cell.state == CellState::measured ? rate() : 0;
      cell.verified_bytes = random() >> 20;
      cell.path = odd_text(random);
      cell.problem = odd_text(random);
    }
  }
  run.broken = std::vector<BrokenRank>(
      random() % 3, {static_cast<std::uint32_t>(random()), odd_text(random), odd_text(random)});
  return run;
}

inline auto fields_of(const End& end) {
  return std::tie(end.rank, end.host, end.nic, end.memory, end.device, end.path, end.distance,
                  end.link_bytes_per_second, end.facts);
}

inline auto fields_of(const Cell& cell) {
  return std::tie(cell.source, cell.target, cell.state, cell.bytes_per_second, cell.verified_bytes,
                  cell.path, cell.problem);
}

inline auto fields_of(const BrokenRank& broken) {
  return std::tie(broken.rank, broken.host, broken.problem);
}

inline auto fields_of(const MatrixRun& run) {
  return std::tie(run.ranks, run.launcher, run.emulated, run.verified, run.message_bytes,
                  run.seconds_per_cell);
}

/// Bit for bit, so that a lost digit shows.
template <class T>
bool same_fields(const std::vector<T>& left, const std::vector<T>& right) {
  return std::ranges::equal(left, right,
                            [](const T& a, const T& b) { return fields_of(a) == fields_of(b); });
}

inline bool same_runs(const MatrixRun& left, const MatrixRun& right) {
  return fields_of(left) == fields_of(right) && same_fields(left.ends, right.ends) &&
         same_fields(left.pairs, right.pairs) && same_fields(left.all_at_once, right.all_at_once) &&
         same_fields(left.many_to_one, right.many_to_one) && same_fields(left.broken, right.broken);
}

}  // namespace hbmwire::tools::perf::all

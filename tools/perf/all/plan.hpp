// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tools/perf/all/matrix.hpp"
#include "tools/perf/all/presentation.hpp"

/// The order in which the cells of a run are measured. Every rank makes the same plan from the same
/// ends, so that no rank has to tell the others what comes next.
namespace hbmwire::tools::perf::all {

using RankPair = std::pair<std::uint32_t, std::uint32_t>;

/// Rounds of disjoint pairs, in which every rank meets every other one once: the circle method.
/// `ranks` - 1 rounds, or `ranks` where that is odd and one rank rests in each.
[[nodiscard]] std::vector<std::vector<RankPair>> rounds_of(std::uint32_t ranks);

/// Cells that are measured at the same time.
struct PlanStep {
  Phase phase = Phase::pairs;
  std::vector<std::size_t> cells;  ///< indices into cells_of(run, phase)
};

/// Gives `run`, which has its ranks and ends, all of its cells, and returns the steps that measure
/// each of them once. A step of Phase::pairs has one cell of each pair of a round.
[[nodiscard]] std::vector<PlanStep> make_plan(MatrixRun& run);

/// The cell of Phase::pairs between two ends of different ranks.
[[nodiscard]] const Cell& pair_cell(const MatrixRun& run, std::size_t source, std::size_t target);

/// The place of a cell among those of its step that have the same target: each source writes to a
/// slot of its own.
[[nodiscard]] std::size_t slot_of(const MatrixRun& run, const PlanStep& step, std::size_t cell);

/// How many slots an end needs for all steps.
[[nodiscard]] std::size_t slots_of(const MatrixRun& run, const std::vector<PlanStep>& steps,
                                   std::size_t end);

}  // namespace hbmwire::tools::perf::all

// SPDX-License-Identifier: MIT
#include "tools/perf/all/failures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "tools/perf/all/names.hpp"

namespace hbmwire::tools::perf::all {
namespace {

using RankOrNone = std::optional<std::uint32_t>;
using Members = std::vector<const Cell*>;

// Ranks whose cells all failed; empty when every rank's did.
std::set<std::uint32_t> dead_ranks(const MatrixRun& run, const std::vector<Cell>& cells) {
  std::map<std::uint32_t, std::size_t> measured;
  std::map<std::uint32_t, std::size_t> all;
  for (const Cell& cell : cells) {
    for (const std::size_t end : {cell.source, cell.target}) {
      ++all[run.ends[end].rank];
      if (cell.state == CellState::measured) ++measured[run.ends[end].rank];
    }
  }
  std::set<std::uint32_t> dead;
  for (const auto& [rank, count] : all) {
    // One failed cell alone says nothing about its rank.
    if (count > 1 && !measured.contains(rank)) dead.insert(rank);
  }
  return measured.empty() ? std::set<std::uint32_t>() : dead;
}

std::string host_of(const MatrixRun& run, std::uint32_t rank) {
  const auto found = std::ranges::find(run.ends, rank, &End::rank);
  return found == run.ends.end() ? "" : found->host;
}

std::string where_text(const MatrixRun& run, const Members& members, RankOrNone rank,
                       std::size_t all_cells) {
  if (rank) return "all cells from and to " + rank_text(*rank, host_of(run, *rank));
  if (members.size() == all_cells && all_cells > 1) return "every cell";
  const std::string first = fmt::format("{} to {}", end_text(run.ends[members[0]->source]),
                                        end_text(run.ends[members[0]->target]));
  return members.size() == 1 ? first : fmt::format("{} and {} more", first, members.size() - 1);
}

}  // namespace

std::vector<FailureGroup> failures_of(const MatrixRun& run, const std::vector<Cell>& cells) {
  const auto dead = dead_ranks(run, cells);
  std::map<std::tuple<RankOrNone, CellState, std::string>, Members> groups;
  for (const Cell& cell : cells) {
    if (cell.state == CellState::measured) continue;
    RankOrNone rank;
    for (const std::size_t end : {cell.source, cell.target}) {
      if (!rank && dead.contains(run.ends[end].rank)) rank = run.ends[end].rank;
    }
    groups[{rank, cell.state, rank ? "" : cell.problem}].push_back(&cell);
  }
  std::vector<FailureGroup> failures;
  for (const auto& [key, members] : groups) {
    std::set<std::string> problems;
    for (const Cell* const cell : members) problems.insert(cell->problem);
    failures.push_back({.state = std::get<CellState>(key),
                        .cells = members.size(),
                        .where = where_text(run, members, std::get<RankOrNone>(key), cells.size()),
                        .problem = members[0]->problem,
                        .problems = problems.size()});
  }
  std::ranges::stable_sort(failures, std::ranges::greater{}, &FailureGroup::cells);
  return failures;
}

}  // namespace hbmwire::tools::perf::all

// SPDX-License-Identifier: MIT
#include "tools/perf/all/names.hpp"

#include <fmt/format.h>

#include "tools/perf/all/presentation.hpp"

namespace hbmwire::tools::perf::all {

std::string end_name(const End& end) {
  return fmt::format("{} {} {}", end.host, end.nic, end.memory);
}

std::string end_text(const End& end) {
  const std::string memory = end.device.empty() ? end.memory + " memory" : end.device;
  return fmt::format("rank {} ({} {}, {})", end.rank, end.host, end.nic, memory);
}

std::string rank_text(std::uint32_t rank, const std::string& host) {
  return fmt::format("rank {} ({})", rank, host);
}

std::string_view name_of(Phase phase) noexcept {
  switch (phase) {
    case Phase::pairs:
      return "pairs";
    case Phase::all_at_once:
      return "all_at_once";
    case Phase::many_to_one:
      return "many_to_one";
  }
  return "?";
}

std::string_view name_of(CellState state) noexcept {
  switch (state) {
    case CellState::not_measured:
      return "not_measured";
    case CellState::measured:
      return "measured";
    case CellState::unreachable:
      return "unreachable";
    case CellState::broken:
      return "broken";
    case CellState::corrupt:
      return "corrupt";
  }
  return "?";
}

std::vector<Cell>& cells_of(MatrixRun& run, Phase phase) noexcept {
  switch (phase) {
    case Phase::all_at_once:
      return run.all_at_once;
    case Phase::many_to_one:
      return run.many_to_one;
    default:
      return run.pairs;
  }
}

const std::vector<Cell>& cells_of(const MatrixRun& run, Phase phase) noexcept {
  return cells_of(const_cast<MatrixRun&>(run), phase);
}

}  // namespace hbmwire::tools::perf::all

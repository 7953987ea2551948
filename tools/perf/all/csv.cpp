// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "tools/perf/all/presentation.hpp"
#include "tools/perf/all/statistics.hpp"

namespace hbmwire::tools::perf::all {
namespace {

constexpr std::string_view kHeader =
    "phase,source_rank,source_host,source_nic,source_memory,source_device,target_rank,target_host,"
    "target_nic,target_memory,target_device,state,bytes_per_second,share_of_slower_link,"
    "verified_bytes,path,problem\r\n";

// In quotes if RFC 4180 asks for them. Control characters become '?', since a terminal may show the
// file.
std::string field(std::string_view text) {
  const bool quoted = text.find_first_of(",\"\r\n") != std::string_view::npos;
  std::string safe;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool control = (byte < 0x20 && c != '\r' && c != '\n') || byte == 0x7f;
    if (c == '"') safe += '"';
    safe += control ? '?' : c;
  }
  return quoted ? '"' + safe + '"' : safe;
}

std::string end_fields(const End& end) {
  return fmt::format("{},{},{},{},{}", end.rank, field(end.host), field(end.nic), field(end.memory),
                     field(end.device));
}

// Figures of cells that were not measured are empty, not 0.
std::string figure_fields(const MatrixRun& run, const Cell& cell) {
  const bool measured = cell.state == CellState::measured;
  const auto share = share_of_link(run, cell);
  return fmt::format("{},{},{}", measured ? fmt::format("{}", cell.bytes_per_second) : "",
                     share ? fmt::format("{}", *share) : "", cell.verified_bytes);
}

}  // namespace

std::string to_csv(const MatrixRun& run) {
  std::string text(kHeader);
  for (const Phase phase : kPhases) {
    for (const Cell& cell : cells_of(run, phase)) {
      text +=
          fmt::format("{},{},{},{},{},{},{}\r\n", name_of(phase), end_fields(run.ends[cell.source]),
                      end_fields(run.ends[cell.target]), name_of(cell.state),
                      figure_fields(run, cell), field(cell.path), field(cell.problem));
    }
  }
  return text;
}

}  // namespace hbmwire::tools::perf::all

// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/common/failure.hpp"
#include "tools/common/output.hpp"
#include "tools/perf/all/matrix.hpp"

/// A run of `hbmwire perf --all` for people and for programs. All functions are pure: they read no
/// environment and no file, but for read_matrix(). Threads: any. Texts of other nodes are made
/// printable where a terminal or a browser shows them.
namespace hbmwire::tools::perf::all {

/// How the terminal is.
struct MatrixStyle {
  unsigned columns =
      80;  ///< terminal_columns(); fewer than 80 are taken as 80, more than 200 as 200
  bool coloured = false;  ///< has_colours(STDOUT_FILENO)
};

/// The measurements that a run has, one after another.
enum class Phase : std::uint8_t { pairs, all_at_once, many_to_one };

inline constexpr std::array kPhases{Phase::pairs, Phase::all_at_once, Phase::many_to_one};

/// "pairs", "all_at_once", "many_to_one": as JSON and CSV have it.
[[nodiscard]] std::string_view name_of(Phase phase) noexcept;

/// "not_measured", "measured", "unreachable", "broken", "corrupt": as JSON and CSV have it.
[[nodiscard]] std::string_view name_of(CellState state) noexcept;

[[nodiscard]] const std::vector<Cell>& cells_of(const MatrixRun& run, Phase phase) noexcept;
[[nodiscard]] std::vector<Cell>& cells_of(MatrixRun& run, Phase phase) noexcept;

/// Lines without an end. The matrix, a row for each source, a column for each target, in GB/s or
/// Gb/s: by ends, or by ranks where the ends do not fit, each cell the slowest of the two ranks. A
/// cluster whose ranks do not fit either is shown by digits, tenths of the typical rate. Then the
/// legend, the figures of the three phases, the outliers with their likely reasons (outliers.hpp),
/// the cells without a figure by their problems, the ranks that broke, and the bytes verified.
[[nodiscard]] std::vector<std::string> matrix_lines(const MatrixRun& run, const MatrixStyle& style,
                                                    bool gigabits);

/// Everything of the run, in bytes a second. Each cell has its share of the slower of its two
/// links, null where one of them is not known; "summary" has the statistics and outliers, which
/// matrix_from_json() makes anew. Texts that are no UTF-8 need Json::error_handler_t::replace at
/// dump(), as Output::json() has it.
[[nodiscard]] Json to_json(const MatrixRun& run);

/// The run that to_json() wrote. Errors: one sentence that says which value is missing or can't be.
/// Accepts nothing that the other functions can't show: indices are in range, rates are finite.
[[nodiscard]] Outcome<MatrixRun> matrix_from_json(const Json& json);

/// The file of --compare: a JSON document, of to_json(). To be read before the run, which may be
/// saved under the same name. Errors: it can't be read, is no JSON, or no run of perf --all.
[[nodiscard]] Outcome<MatrixRun> read_matrix(const std::string& path);

/// RFC 4180 with a header: a row for each cell of each phase.
[[nodiscard]] std::string to_csv(const MatrixRun& run);

/// One SVG document of the pairs that needs no other file: a square for each cell, with its figure
/// or its problem as a tooltip. Some 200 bytes for each cell.
[[nodiscard]] std::string heat_map_svg(const MatrixRun& run, bool gigabits);

/// One cell in two runs.
struct CellChange {
  Phase phase = Phase::pairs;
  std::string source = {};  ///< "n3 mlx5_0:1 gaudi"
  std::string target = {};
  double before = 0;         ///< bytes a second; 0: not measured
  double now = 0;            ///< bytes a second; 0: not measured
  double relative = 0;       ///< now against before: +0.1 is 10 % more; 0 unless both are measured
  std::string problem = {};  ///< of a lost cell, now; of a regained one, before
};

/// Two runs, by the ends that both have.
struct MatrixComparison {
  /// A cell that differs by no more than this says nothing. A cell is measured once, for a fraction
  /// of a second to some seconds, so its own noise is not known: 10 % is taken, as for a run of
  /// perf that is too short to measure its noise.
  static constexpr double kNoise = 0.1;

  std::size_t compared = 0;                   ///< cells measured in both runs
  std::vector<CellChange> lost = {};          ///< measured before, and not now
  std::vector<CellChange> worse = {};         ///< beyond the noise, the worst first
  std::vector<CellChange> better = {};        ///< beyond the noise, the best first
  std::vector<CellChange> regained = {};      ///< measured now, and not before
  std::vector<std::string> only_before = {};  ///< ends: "n3 mlx5_0:1 gaudi"
  std::vector<std::string> only_now = {};
  std::vector<std::string> differences =
      {};  ///< of the conditions: "message: 1 MiB, before: 4 MiB"
};

/// Ends are the same when host, NIC and memory are. Several such ends of one run (ranks that share
/// a NIC) are told apart by their order. Errors: the runs have no end in common.
[[nodiscard]] Outcome<MatrixComparison> compare_matrices(const MatrixRun& before,
                                                         const MatrixRun& now);

/// Lines without an end: lost cells first, then differences of the conditions, then changes.
[[nodiscard]] std::vector<std::string> comparison_lines(const MatrixComparison& comparison,
                                                        const MatrixStyle& style, bool gigabits);

[[nodiscard]] Json to_json(const MatrixComparison& comparison);

}  // namespace hbmwire::tools::perf::all

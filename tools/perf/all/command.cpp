// SPDX-License-Identifier: MIT
#include "tools/perf/all/command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "hbmwire/group.hpp"

#include "tools/common/finish.hpp"
#include "tools/common/interrupt.hpp"
#include "tools/common/progress.hpp"
#include "tools/common/text_file.hpp"
#include "tools/perf/all/matrix_runner.hpp"
#include "tools/perf/all/options.hpp"
#include "tools/perf/all/presentation.hpp"
#include "tools/perf/meeting.hpp"

namespace hbmwire::tools::perf::all {
namespace {

/// Shows and writes the result of a run, at rank 0.
class MatrixReport {
 public:
  MatrixReport(const Options& options, Output& output) : options_(options), output_(output) {}

  /// Before the run: reads the run to compare with, and tries the files that it will write.
  Outcome<void> prepare() {
    if (!options_.compare_file.empty()) {
      HBMWIRE_TRY_ASSIGN(before_, read_matrix(options_.compare_file));
    }
    HBMWIRE_TRY(TextFile::open(options_.json_file, json_file_));
    HBMWIRE_TRY(TextFile::open(options_.csv_file, csv_file_));
    return TextFile::open(options_.plot_file, plot_file_);
  }

  /// After the run. Errors: a file can't be written; the runs can't be compared; a cell or a rank
  /// failed.
  Outcome<void> conclude(const MatrixRun& run) {
    const MatrixStyle style{.columns = terminal_columns(), .coloured = has_colours(STDOUT_FILENO)};
    for (const auto& line : matrix_lines(run, style, options_.gigabits)) output_.line("{}", line);
    json_ = to_json(run);
    // The files are written even if the runs can't be compared.
    Outcome<void> compared;
    if (before_) compared = compare(run, style);
    HBMWIRE_TRY(write_files(run));
    HBMWIRE_TRY(compared);
    return check(run);
  }

  [[nodiscard]] const Json& json() const noexcept { return json_; }

 private:
  Outcome<void> compare(const MatrixRun& run, const MatrixStyle& style) {
    HBMWIRE_TRY_ASSIGN(const auto comparison, compare_matrices(*before_, run));
    output_.line("Compared with {}:", options_.compare_file);
    for (const auto& line : comparison_lines(comparison, style, options_.gigabits))
      output_.line("{}", line);
    json_["comparison"] = to_json(comparison);
    return {};
  }

  Outcome<void> write_files(const MatrixRun& run) {
    if (json_file_) {
      const std::string text = json_.dump(2, ' ', false, Json::error_handler_t::replace);
      HBMWIRE_TRY(json_file_->write(text + "\n"));
    }
    if (csv_file_) HBMWIRE_TRY(csv_file_->write(to_csv(run)));
    if (plot_file_) HBMWIRE_TRY(plot_file_->write(heat_map_svg(run, options_.gigabits)));
    return {};
  }

  static Outcome<void> check(const MatrixRun& run) {
    if (!run.broken.empty()) {
      const BrokenRank& broken = run.broken.front();
      return fail(fmt::format("rank {} ({}): {}", broken.rank, broken.host, broken.problem));
    }
    std::size_t bad = 0;
    for (const Phase phase : kPhases) {
      bad += static_cast<std::size_t>(std::ranges::count_if(
          cells_of(run, phase),
          [](const Cell& cell) { return cell.state != CellState::measured; }));
    }
    if (bad == 0) return {};
    return fail(
        fmt::format("{} cells of the matrix have no figure; their problems are listed "
                    "above, and in the JSON",
                    bad));
  }

  const Options& options_;
  Output& output_;
  std::optional<MatrixRun> before_;
  std::optional<TextFile> json_file_;
  std::optional<TextFile> csv_file_;
  std::optional<TextFile> plot_file_;
  Json json_ = Json::object();
};

Outcome<void> run_rank(const Options& options, const Interrupt& interrupt, Output& output,
                       MatrixReport& report, Group& group) {
  const bool speaks = group.rank() == 0;
  if (speaks) {
    output.line("{} ranks, by {}{}", group.size(), group.launcher(),
                is_emulated() ? " (emulated hardware)" : "");
    HBMWIRE_TRY(output.check());
  }
  std::optional<Progress> progress;
  MatrixRunner runner(group, options.matrix, interrupt.fd(),
                      [&](std::size_t done, std::size_t steps, Phase phase) {
                        if (!speaks) return;
                        if (!progress)
                          progress.emplace("measuring", steps, output.shows_progress());
                        progress->step(done, std::string(name_of(phase)));
                      });
  auto run = runner.run();
  progress.reset();
  if (!run) return tl::make_unexpected(run.error());
  return speaks ? report.conclude(*run) : Outcome<void>();
}

}  // namespace

int run_all(int argc, char** argv) {
  const std::string program = argv[0];
  Options options;
  if (const auto code = parse_options(program, argc, argv, options)) return *code;
  Output output(program, options.output_mode());
  const auto interrupt = Interrupt::create();
  if (!interrupt) return finish(output, interrupt.error(), Json::object());
  auto group = meet(options.bind, options.matrix.patience, interrupt->fd());
  if (!group) return finish(output, group.error(), Json::object());
  const bool speaks = group->rank() == 0;
  MatrixReport report(options, output);
  auto done = speaks ? report.prepare() : Outcome<void>();
  if (done) done = run_rank(options, *interrupt, output, report, *group);
  if (speaks) {
    return done ? finish(output, kExitOk, report.json())
                : finish(output, done.error(), report.json());
  }
  // Launchers join the output of all ranks: the object of --json is rank 0's.
  if (done) return kExitOk;
  output.error(fmt::format("rank {}: {}", group->rank(), done.error().text));
  return done.error().exit_code;
}

}  // namespace hbmwire::tools::perf::all

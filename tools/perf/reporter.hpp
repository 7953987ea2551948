// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <optional>

#include "tools/common/output.hpp"
#include "tools/common/progress.hpp"
#include "tools/common/text_file.hpp"
#include "tools/perf/runner.hpp"
#include "tools/perf/table.hpp"

namespace hbmwire::tools::perf {

/// Reports the progress of a run and its results: table, progress, plots, files, comparison,
/// verdict.
class Reporter final : public Observer {
 public:
  Reporter(Output& output, const Options& options);

  /// To be called before the run. Reads the run to compare with, because a result may overwrite its
  /// file, and creates the output files.
  Outcome<void> prepare();

  Outcome<void> begins(const RunResult& run) override;
  void measures(std::uint64_t size_bytes, std::size_t index, std::size_t count) override;
  void measured(const RunResult& run, const Row& row) override;

  /// To be called after the run. Prints and writes all results, and the object of --json. Errors:
  /// bytes did not arrive, a limit of -w or -y was not reached, a file cannot be written; `result`
  /// is complete even then.
  Outcome<void> conclude(RunResult& result);

  /// The object of --json with all results so far.
  [[nodiscard]] Json json(const RunResult& result) const;

 private:
  void compare(const RunResult& result);
  Outcome<void> write_files(const RunResult& result);
  /// The errors of conclude() that are about the results.
  [[nodiscard]] Outcome<void> check(const RunResult& result) const;

  Output& output_;
  const Options& options_;
  Style style_;
  std::optional<RunResult> saved_;
  std::optional<TextFile> json_file_;
  std::optional<TextFile> plot_file_;
  std::optional<Json> comparison_;
  std::optional<Failure> incomparable_;  // why; returned after all else is printed and written
  std::unique_ptr<Progress> progress_;
};

}  // namespace hbmwire::tools::perf

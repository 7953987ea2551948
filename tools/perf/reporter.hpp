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

/// Says how a run goes and what came of it: table, progress, plots, files, comparison, verdict.
class Reporter final : public Observer {
 public:
  Reporter(Output& output, const Options& options);

  /// Before the run: reads what it will be compared with, which it may write over, and makes the
  /// files that it will write.
  Outcome<void> prepare();

  Outcome<void> begins(const RunResult& run) override;
  void measures(std::uint64_t size_bytes, std::size_t index, std::size_t count) override;
  void measured(const RunResult& run, const Row& row) override;

  /// After the run: all that is said and written of the whole, and the object of --json. Errors:
  /// bytes that did not arrive, a limit of -w or -y that was not reached, a file that can't be
  /// written; `result` is complete then, too.
  Outcome<void> conclude(RunResult& result);

  /// The object of --json, of as much as is known.
  [[nodiscard]] Json json(const RunResult& result) const;

 private:
  void compare(const RunResult& result);
  Outcome<void> write_files(const RunResult& result);
  [[nodiscard]] Outcome<void> check(const RunResult& result) const;

  Output& output_;
  const Options& options_;
  Style style_;
  std::optional<RunResult> saved_;
  std::optional<TextFile> json_file_;
  std::optional<TextFile> plot_file_;
  std::optional<Json> comparison_;
  std::optional<Failure> incomparable_;
  std::unique_ptr<Progress> progress_;
};

}  // namespace hbmwire::tools::perf

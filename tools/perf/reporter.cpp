// SPDX-License-Identifier: MIT
#include "tools/perf/reporter.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/common/hardware.hpp"
#include "tools/common/text.hpp"
#include "tools/perf/chart.hpp"
#include "tools/perf/comparison.hpp"
#include "tools/perf/run_json.hpp"
#include "tools/perf/verdict.hpp"

namespace hbmwire::tools::perf {
namespace {

constexpr std::size_t kLeastPlotted = 3;  // sizes; a table shows fewer than that better

// Small messages cycle through a page of memory (Slots).
constexpr std::uint64_t kSpanBytes = 4096;

void measure_copies(RunResult& result) {
  for (Row& row : result.rows)
    row.memcpy_bytes_per_second = memcpy_bytes_per_second(row.size_bytes, kSpanBytes);
}

// Converts into the shown unit.
double shown(double bytes_per_second, const Style& style) {
  return style.gigabits ? bytes_per_second * 8 / 1e9 : bytes_per_second / (1 << 20);
}

}  // namespace

Reporter::Reporter(Output& output, const Options& options)
    : output_(output), options_(options), style_{.gigabits = options.gigabits} {}

Outcome<void> Reporter::prepare() {
  if (!options_.compare_file.empty()) {
    HBMWIRE_TRY_ASSIGN(saved_, read_run(options_.compare_file));
  }
  HBMWIRE_TRY(TextFile::open(options_.json_file, json_file_));
  return TextFile::open(options_.plot_file, plot_file_);
}

Outcome<void> Reporter::begins(const RunResult& run) {
  output_.line("{}", banner_text(run));
  output_.line("{}", headline_text(run.measure, style_));
  return output_.check();
}

void Reporter::measures(std::uint64_t size_bytes, std::size_t index, std::size_t count) {
  if (!progress_)
    progress_ = std::make_unique<Progress>("measuring", count, output_.shows_progress());
  progress_->step(index, size_text(size_bytes));
}

void Reporter::measured(const RunResult& run, const Row& row) {
  if (progress_) progress_->clear();
  output_.line("{}", row_text(row, run.measure, style_));
}

Outcome<void> Reporter::conclude(RunResult& result) {
  progress_.reset();
  if (result.emulated) measure_copies(result);
  auto judgement = judge(result);
  result.verdict = std::move(judgement.verdict);
  result.why_no_verdict = std::move(judgement.why_none);
  for (const auto& line : closing_lines(result, style_)) output_.line("{}", line);
  const RunResult* const saved = saved_ ? &*saved_ : nullptr;
  if (result.rows.size() >= kLeastPlotted) {
    const Chart chart = chart_of(result, style_, saved);
    for (const auto& line : terminal_plot(chart, terminal_columns())) output_.line("{}", line);
  }
  if (saved != nullptr) compare(result);
  HBMWIRE_TRY(write_files(result));
  return check(result);
}

void Reporter::compare(const RunResult& result) {
  const auto comparison = compare_runs(*saved_, result);
  if (!comparison) {
    incomparable_ = comparison.error();
    return;
  }
  output_.line("Compared with {}:", options_.compare_file);
  for (const auto& line : comparison_lines(*comparison, style_)) output_.line("{}", line);
  comparison_ = to_json(*comparison);
}

Json Reporter::json(const RunResult& result) const {
  if (result.test.empty()) return Json::object();
  Json json = to_json(result, style_);
  if (comparison_) json["comparison"] = *comparison_;
  return json;
}

Outcome<void> Reporter::write_files(const RunResult& result) {
  if (json_file_) {
    const std::string text = json(result).dump(2, ' ', false, Json::error_handler_t::replace);
    HBMWIRE_TRY(json_file_->write(text + "\n"));
  }
  if (!plot_file_) return {};
  const Chart chart = chart_of(result, style_, saved_ ? &*saved_ : nullptr);
  return plot_file_->write(svg_of(chart));
}

Outcome<void> Reporter::check(const RunResult& result) const {
  for (const Row& row : result.rows) {
    if (row.is_trusted()) continue;
    const std::string& problem = row.verification.problem;
    return fail(!problem.empty() ? problem
                                 : fmt::format("verify: {}: {} of {} messages arrived, {} wrong "
                                               "bytes",
                                               size_text(row.size_bytes), row.verification.arrivals,
                                               row.verification.expected_arrivals,
                                               row.verification.wrong_bytes));
  }
  if (incomparable_) return tl::make_unexpected(*incomparable_);
  for (const Row& row : result.rows) {
    if (!row.bandwidth) continue;
    const double bandwidth = shown(row.bandwidth->average_bytes_per_second, style_);
    const double rate = row.bandwidth->messages_per_second / 1e6;
    if (bandwidth < options_.least_bandwidth) {
      return fail(fmt::format("limit: {}: a bandwidth of {:.2f} is below the {:.2f} of -w",
                              size_text(row.size_bytes), bandwidth, options_.least_bandwidth));
    }
    if (rate < options_.least_message_rate) {
      return fail(
          fmt::format("limit: {}: {:.6f} million messages a second are below the {:.6f} of "
                      "-y",
                      size_text(row.size_bytes), rate, options_.least_message_rate));
    }
  }
  return {};
}

}  // namespace hbmwire::tools::perf

// SPDX-License-Identifier: MIT
#include "tools/perf/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "tools/common/text.hpp"
#include "tools/wire/messages.hpp"

namespace hbmwire::tools::perf {
namespace {

struct Figure {
  double value = 0;
  double noise = 0;
};

std::optional<Figure> figure_of(const Row& row, Measure measure) {
  constexpr double kLeastNoise = 0.01;
  constexpr double kUnknownNoise = 0.1;
  Figure figure;
  if (measure == Measure::bandwidth && row.bandwidth)
    figure = {row.bandwidth->average_bytes_per_second, row.bandwidth->noise};
  if (measure == Measure::latency && row.latency)
    figure = {row.latency->typical_ns, row.latency->noise};
  if (figure.value <= 0 || !row.is_trusted()) return std::nullopt;
  figure.noise = figure.noise > 0 ? std::max(figure.noise, kLeastNoise) : kUnknownNoise;
  return figure;
}

const Row* find_size(const std::vector<Row>& rows, std::uint64_t size_bytes) {
  const auto found = std::ranges::find(rows, size_bytes, &Row::size_bytes);
  return found == rows.end() ? nullptr : &*found;
}

std::optional<Figure> figure_at(const RunResult& run, std::uint64_t size_bytes) {
  const Row* const row = find_size(run.rows, size_bytes);
  return row != nullptr ? figure_of(*row, run.measure) : std::nullopt;
}

Change change_between(std::uint64_t size_bytes, const Figure& before, const Figure& now,
                      Measure measure) {
  Change change{.size_bytes = size_bytes,
                .before = before.value,
                .now = now.value,
                .relative = now.value / before.value - 1,
                .noise = (1 + before.noise) * (1 + now.noise) - 1};
  // As a factor, so that a change and its reverse both count or both do not.
  const double factor = std::max(now.value / before.value, before.value / now.value);
  if (factor <= 1 + change.noise) return change;
  const bool more_is_better = measure == Measure::bandwidth;
  change.kind =
      (change.relative > 0) == more_is_better ? Change::Kind::better : Change::Kind::worse;
  return change;
}

std::string value_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

class Differences {
 public:
  void add(const std::string& what, const std::string& before, const std::string& now) {
    const auto shown = [](const std::string& text) { return text.empty() ? "none" : text; };
    if (before == now) return;
    list_.push_back(
        wire::printable(fmt::format("{}: {}, before: {}", what, shown(now), shown(before))));
  }

  void add_side(const std::string& where, const Side& before, const Side& now) {
    add("memory " + where, before.memory, now.memory);
    add("path " + where, before.path, now.path);
    add("NIC " + where, before.nic, now.nic);
  }

  void add_parameters(const RunResult& before, const RunResult& now) {
    for (const Parameter& parameter : now.parameters) {
      const auto old = std::ranges::find(before.parameters, parameter.key, &Parameter::key);
      add(parameter.label, old == before.parameters.end() ? "" : value_text(old->value),
          value_text(parameter.value));
    }
    for (const Parameter& old : before.parameters) {
      if (std::ranges::find(now.parameters, old.key, &Parameter::key) == now.parameters.end())
        add(old.label, value_text(old.value), "");
    }
  }

  [[nodiscard]] std::vector<std::string> take() { return std::move(list_); }

 private:
  std::vector<std::string> list_;
};

std::vector<std::string> differences_of(const RunResult& before, const RunResult& now) {
  const auto yes_no = [](bool value) { return std::string(value ? "yes" : "no"); };
  Differences differences;
  differences.add("emulated hardware", yes_no(before.emulated), yes_no(now.emulated));
  differences.add("verified", yes_no(before.verified), yes_no(now.verified));
  differences.add("both directions", yes_no(before.bidirectional), yes_no(now.bidirectional));
  differences.add_side("here", before.local, now.local);
  differences.add_side("there", before.remote, now.remote);
  differences.add_parameters(before, now);
  return differences.take();
}

std::string value_text(double value, Measure measure, const Style& style) {
  return measure == Measure::bandwidth ? speed_text(value, style) : duration_text(value);
}

std::string_view word_of(Change::Kind kind) {
  switch (kind) {
    case Change::Kind::better:
      return "better";
    case Change::Kind::worse:
      return "WORSE";
    default:
      return "within the noise";
  }
}

std::string sizes_text(const std::vector<std::uint64_t>& sizes) {
  std::string text;
  for (const auto size : sizes) text += (text.empty() ? "" : ", ") + size_text(size);
  return text;
}

std::string summary_line(const std::vector<Change>& changes) {
  const auto count = [&](Change::Kind kind) {
    return std::ranges::count(changes, kind, &Change::kind);
  };
  return fmt::format(" {} of {} sizes changed beyond the noise: {} better, {} worse",
                     count(Change::Kind::better) + count(Change::Kind::worse), changes.size(),
                     count(Change::Kind::better), count(Change::Kind::worse));
}

}  // namespace

Outcome<RunComparison> compare_runs(const RunResult& before, const RunResult& now) {
  if (before.test != now.test) {
    return fail(fmt::format("compare: the saved run is of {}, this one of {}: compare runs of one "
                            "test",
                            wire::printable(before.test), now.test),
                kExitUsage);
  }
  RunComparison comparison{.measure = now.measure,
                           .changes = {},
                           .differences = differences_of(before, now),
                           .only_before = {},
                           .only_now = {}};
  for (const Row& row : now.rows) {
    const auto old = figure_at(before, row.size_bytes);
    const auto figure = figure_of(row, now.measure);
    if (!figure) continue;
    if (old) {
      comparison.changes.push_back(change_between(row.size_bytes, *old, *figure, now.measure));
    } else {
      comparison.only_now.push_back(row.size_bytes);
    }
  }
  for (const Row& row : before.rows) {
    if (!figure_at(now, row.size_bytes)) comparison.only_before.push_back(row.size_bytes);
  }
  return comparison;
}

std::vector<std::string> comparison_lines(const RunComparison& comparison, const Style& style) {
  const std::string figure = comparison.measure == Measure::bandwidth ? "BW average" : "t_typical";
  std::vector<std::string> lines;
  for (const auto& difference : comparison.differences)
    lines.push_back(" not the same: " + difference);
  lines.push_back(
      fmt::format(" {:<11}{:<15}{:<15}{:<11}{:<10}", "#bytes", "before", "now", "change", "noise") +
      figure);
  for (const Change& change : comparison.changes) {
    lines.push_back(fmt::format(" {:<11}{:<15}{:<15}{:<11}{:<10}{}", change.size_bytes,
                                value_text(change.before, comparison.measure, style),
                                value_text(change.now, comparison.measure, style),
                                fmt::format("{:+.1f}%", change.relative * 100),
                                fmt::format("{:.1f}%", change.noise * 100), word_of(change.kind)));
  }
  lines.push_back(summary_line(comparison.changes));
  if (!comparison.only_before.empty())
    lines.push_back(" only in the saved run: " + sizes_text(comparison.only_before));
  if (!comparison.only_now.empty())
    lines.push_back(" not in the saved run: " + sizes_text(comparison.only_now));
  return lines;
}

Json to_json(const RunComparison& comparison) {
  Json changes = Json::array();
  for (const Change& change : comparison.changes) {
    const bool counts = change.kind != Change::Kind::none;
    changes.push_back({{"size_bytes", change.size_bytes},
                       {"before", change.before},
                       {"now", change.now},
                       {"relative", change.relative},
                       {"noise", change.noise},
                       {"beyond_noise", counts},
                       {"better", counts ? Json(change.kind == Change::Kind::better) : Json()}});
  }
  return {{"changes", changes},
          {"differences", comparison.differences},
          {"only_before", comparison.only_before},
          {"only_now", comparison.only_now}};
}

}  // namespace hbmwire::tools::perf

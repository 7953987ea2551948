// SPDX-License-Identifier: MIT
#include "bench/common/program.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

#include "bench/common/report.hpp"
#include <CLI/CLI.hpp>

namespace hbmwire::bench {
namespace {

struct Options {
  bool json = false;
  bool quick = false;
  bool list = false;
  unsigned pairs = 21;
  std::vector<std::string> rows;
};

/// The rows whose names begin with one of `names`; all if there are no names.
std::vector<Row> chosen(std::vector<Row> rows, const std::vector<std::string>& names) {
  if (names.empty()) return rows;
  for (const std::string& name : names) {
    const auto is_meant = [&](const Row& row) { return row.name.rfind(name, 0) == 0; };
    if (std::none_of(rows.begin(), rows.end(), is_meant))
      throw std::runtime_error("there is no row " + name + " (--list)");
  }
  std::erase_if(rows, [&](const Row& row) {
    return std::none_of(names.begin(), names.end(),
                        [&](const std::string& name) { return row.name.rfind(name, 0) == 0; });
  });
  return rows;
}

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

int measure(const Options& options, const std::function<std::vector<Row>()>& all) {
  const std::vector<Row> rows = chosen(all(), options.rows);
  if (options.list) {
    for (const Row& row : rows) print(row.name + ": " + row.ours + " / " + row.theirs + "\n");
    return 0;
  }
  Effort effort;
  effort.pairs = options.quick ? 1 : options.pairs;
  effort.chunks = options.quick ? 10 : effort.chunks;
  effort.quick = options.quick;
  std::vector<Result> results;
  if (!options.json) print(describe_machine() + "\n" + table_head());
  for (const Row& row : rows) {
    results.push_back(run(row, effort));
    if (!options.json) print(table_line(row, results.back()));
  }
  if (options.json) print(json(rows, results));
  return 0;
}

}  // namespace

std::vector<Row> joined(std::initializer_list<std::vector<Row>> kinds) {
  std::vector<Row> rows;
  for (const auto& kind : kinds) rows.insert(rows.end(), kind.begin(), kind.end());
  return rows;
}

int run_program(int argc, char** argv, const char* about,
                const std::function<std::vector<Row>()>& rows) {
  CLI::App app(about);
  Options options;
  app.add_flag("--json", options.json, "a JSON object in place of the table");
  app.add_flag("--quick", options.quick, "one short pair of each row: does it run?");
  app.add_flag("--list", options.list, "name the rows, measure nothing");
  app.add_option("--pairs", options.pairs, "pairs to keep of each row")->capture_default_str();
  app.add_option("--row", options.rows, "only rows of this name, or that begin so (repeatable)")
      ->take_all();
  CLI11_PARSE(app, argc, argv);
  try {
    return measure(options, rows);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench: %s\n", error.what());
    return 1;
  }
}

}  // namespace hbmwire::bench

// SPDX-License-Identifier: MIT
#include "tools/perf/all/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "tools/common/command_line.hpp"
#include "tools/common/text.hpp"
#include "tools/perf/parameters.hpp"
#include <CLI/CLI.hpp>

namespace hbmwire::tools::perf::all {
namespace {

constexpr const char* kDescription =
    "Measures every NIC and card of every rank with those of all other ranks, by RDMA writes, and\n"
    "verifies what arrives. Start it once for each rank, by mpirun, srun, torchrun or Kubernetes;\n"
    "rank 0 prints the matrix.";

constexpr const char* kFooter = R"(
The run
  Pairs of ranks are measured in rounds in which no rank has two partners, so that they do not disturb
  each other. Then every rank writes to the next one, all at once; then all ranks write to one, for
  each of them. A rank that ends is named, and the others go on.

Exit code
  0 every cell was measured and verified; 1 a connection, a transfer, a verification or a rank failed;
  2 the command line or a setting is wrong; 3 this rank has no hardware.

Examples
  mpirun -n 16 hbmwire perf --all
  srun hbmwire perf --all --csv matrix.csv --plot matrix.svg
  mpirun -n 4 hbmwire perf --all --memory host -s 4M -D 1 --compare yesterday.json
)";

void add_choice(CLI::App& app, Options& options) {
  app.add_option("-d,--ib-dev", options.matrix.selection.nics,
                 "Only this RDMA NIC, or port of one (NAME:PORT), of each rank; may be given more "
                 "than once")
      ->allow_extra_args(false)
      ->option_text("DEVICE");
  add_memory_option(app, options.matrix.selection.memories);
  app.add_option("--bind", options.bind,
                 "The address of this machine that the other ranks connect to; all if not given")
      ->option_text("ADDRESS");
}

void add_load(CLI::App& app, Options& options) {
  MatrixOptions& matrix = options.matrix;
  app.add_option_function<std::string>(
         "-s,--size",
         [&matrix](const std::string& text) {
           const auto bytes = parse_size(text);
           if (!bytes || *bytes > kMostMessageBytes)
             throw CLI::ValidationError("-s", "give a number of bytes from 1 to 1G");
           matrix.message_bytes = *bytes;
         },
         "Bytes of a message; K, M, G are taken. Rank 0's counts")
      ->option_text("BYTES [1M]");
  app.add_option_function<double>(
         "-D,--duration",
         [&matrix](const double& seconds) {
           matrix.time = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
         },
         "How long a cell is measured. Rank 0's counts")
      ->check(CLI::Range(0.01, 3600.0))
      ->option_text("SECONDS [0.3]");
  app.add_flag_function(
      "--no-verify", [&matrix](std::int64_t /*count*/) { matrix.verify = false; },
      "Compare nothing; the output says so. Rank 0's counts");
  app.add_option_function<std::uint32_t>(
         "--timeout",
         [&matrix](const std::uint32_t& seconds) {
           matrix.patience = std::chrono::seconds(seconds);
         },
         "Give up a rank or a connection that says nothing for so long")
      ->check(CLI::Range(1, 86400))
      ->option_text("SECONDS [8]");
}

void add_output(CLI::App& app, Options& options) {
  app.add_flag("--report_gbits", options.gigabits, "Gb/s instead of GB/s");
  app.add_flag("--json,--out_json", options.json, "One JSON object on standard output");
  app.add_option("--out_json_file", options.json_file, "The same into a file")->option_text("FILE");
  app.add_option("--csv", options.csv_file, "A row for each cell, as CSV")->option_text("FILE");
  app.add_option("--plot", options.plot_file, "Draw the matrix, as SVG")->option_text("FILE");
  app.add_option("--compare", options.compare_file, "Set the run beside one that was saved")
      ->option_text("FILE");
  app.add_flag("--quiet", options.quiet, "Errors only");
}

/// Options of which one would have no effect.
std::optional<std::string> contradiction(const Options& options) {
  if (options.json && options.quiet)
    return "--quiet has no effect on --json, which prints no more; leave one of them out";
  std::set<std::string> files;
  for (const auto& file : {options.json_file, options.csv_file, options.plot_file}) {
    if (!file.empty() && !files.insert(file).second) {
      return fmt::format(
          "{} is given for two of --out_json_file, --csv and --plot; give each a "
          "file of its own",
          file);
    }
  }
  return std::nullopt;
}

}  // namespace

bool is_asked_for(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  const auto is_test = [](std::string_view word) { return parse_test(word).has_value(); };
  return std::ranges::find(words, "--all") != words.end() && std::ranges::none_of(words, is_test);
}

std::optional<int> parse_options(const std::string& program, int argc, char** argv,
                                 Options& options) {
  CLI::App app(kDescription, program + " --all");
  app.footer(kFooter);
  bool asked = true;
  app.add_flag("--all", asked, "Measure a matrix; without it a TEST is wanted");
  add_choice(app, options);
  add_load(app, options);
  add_output(app, options);
  if (const auto code = parse_command_line(app, program, argc, argv)) return code;
  Output output(program, options.output_mode());
  if (const auto mistake = contradiction(options)) return usage_error(output, *mistake);
  return std::nullopt;
}

}  // namespace hbmwire::tools::perf::all

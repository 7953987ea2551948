// SPDX-License-Identifier: MIT
#include <cerrno>
#include <charconv>
#include <cmath>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "tools/common/command_line.hpp"
#include "tools/common/finish.hpp"
#include "tools/common/progress.hpp"
#include "tools/trace/reader.hpp"
#include "tools/trace/summary.hpp"
#include "tools/trace/text.hpp"
#include <CLI/CLI.hpp>

namespace hbmwire::tools {
namespace {

constexpr const char* kDescription =
    "Tells what a trace of transfers has: how many there were of each kind, by path and NIC, and\n"
    "how long they took; what they waited for, why some failed, which were the slowest, and what\n"
    "happened when. HBMWIRE_TRACE=FILE has a program write a trace.";

constexpr const char* kFooter = R"(
Times
  --from and --to count from the beginning of the trace: 2.5 (seconds), 2.5s, 300ms, 40us, 5ns.

Exit code
  0 the trace was read, also where its end is missing; 1 the file is no trace, or can't be read;
  2 the command line is wrong.

Examples
  HBMWIRE_TRACE=t.json hbmwire emulate -- ./program; hbmwire trace t.json
  hbmwire trace t.json --top 3 --peer node2 --from 1.5 --to 1.6
  hbmwire trace t.json --json | jq '.groups[] | select(.failed > 0)'
)";

struct TraceOptionsOfTool {
  std::string file;
  std::size_t top = 10;
  std::uint64_t endpoint = 0;
  std::string peer;
  std::string from;
  std::string to;
  bool json = false;
};

/// Parses "2.5", "2.5s", "300ms" into nanoseconds. Empty if the text is no time.
std::optional<std::int64_t> time_of(std::string_view text) {
  double value = 0;
  const auto [rest, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || !std::isfinite(value) || value < 0) return std::nullopt;
  const std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  const double scale = unit.empty() || unit == "s" ? 1e9
                       : unit == "ms"              ? 1e6
                       : unit == "us"              ? 1e3
                       : unit == "ns"              ? 1
                                                   : 0;
  const double ns = value * scale;
  if (scale == 0 || ns > 1e18) return std::nullopt;
  return std::llround(ns);
}

CLI::Validator is_time() {
  const auto check = [](const std::string& text) -> std::string {
    return time_of(text) ? "" : "give a time such as 2.5, 300ms or 40us";
  };
  return CLI::Validator(check, "");
}

CLI::Validator is_number() {
  const auto check = [](const std::string& text) -> std::string {
    std::uint64_t number = 0;
    const auto [rest, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool good = failure == std::errc() && rest == text.data() + text.size();
    return good ? "" : "give a number";
  };
  return CLI::Validator(check, "");
}

int tell(const TraceOptionsOfTool& options, const trace::Selection& selection, Output& output) {
  if (const auto good = output.check(); !good) return finish(output, good.error(), Json::object());
  const auto failed = [&](const Failure& failure) {
    return finish(output, failure, Json{{"file", options.file}});
  };
  std::vector<char> buffer(std::size_t{1} << 20U);
  std::ifstream in;
  in.rdbuf()->pubsetbuf(buffer.data(), static_cast<std::streamsize>(buffer.size()));
  errno = 0;
  in.open(options.file, std::ios::binary);
  if (!in) return failed(fail_file("opening", options.file, errno).value());
  trace::Summary summary(selection, options.top);
  errno = 0;
  const auto facts = trace::read_trace(
      in, options.file, [&](const trace::TracedTransfer& transfer) { summary.add(transfer); });
  // The stream only reports that it ended.
  if (const int error = errno; error != 0 && in.bad())
    return failed(fail_file("reading", options.file, error).value());
  if (!facts) return failed(facts.error());
  print_headline(output, "hbmwire trace: " + options.file);
  trace::print_report(output, *facts, summary, terminal_columns());
  Json json{{"file", options.file}};
  if (options.json) json.update(trace::report_json(*facts, summary));
  return finish(output, kExitOk, std::move(json));
}

}  // namespace

int run_trace(int argc, char** argv) {
  const std::string program = argv[0];
  TraceOptionsOfTool options;
  CLI::App app(kDescription, program);
  app.footer(kFooter);
  app.add_option("FILE", options.file, "The trace")->required()->option_text(" ");
  app.add_option("--top", options.top, "How many of the slowest transfers are shown")
      ->check(CLI::Range(std::size_t{0}, std::size_t{100000}))
      ->option_text("NUMBER [10]");
  const CLI::Option* const endpoint =
      app.add_option("--endpoint", options.endpoint, "Only transfers of this endpoint")
          ->check(is_number())
          ->option_text("NUMBER");
  app.add_option("--peer", options.peer, "Only transfers with peers whose name contains this")
      ->option_text("NAME");
  app.add_option("--from", options.from, "Only transfers that were over at this time or later")
      ->check(is_time())
      ->option_text("TIME");
  app.add_option("--to", options.to, "Only transfers that were asked for until then")
      ->check(is_time())
      ->option_text("TIME");
  app.add_flag("--json", options.json, "One JSON object instead of text");
  if (const auto code = parse_command_line(app, program, argc, argv)) return *code;
  Output output(program, options.json ? Output::Mode::json : Output::Mode::text);
  trace::Selection selection;
  if (endpoint->count() != 0) selection.endpoint = options.endpoint;
  selection.peer = options.peer;
  if (!options.from.empty()) selection.from_ns = time_of(options.from).value_or(0);
  if (!options.to.empty()) selection.to_ns = time_of(options.to);
  if (selection.to_ns && *selection.to_ns < selection.from_ns)
    return usage_error(output, "--to is before --from");
  return tell(options, selection, output);
}

}  // namespace hbmwire::tools

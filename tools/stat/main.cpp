// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/common/command_line.hpp"
#include "tools/common/finish.hpp"
#include "tools/common/interrupt.hpp"
#include "tools/common/text_file.hpp"
#include "tools/stat/json.hpp"
#include "tools/stat/prometheus.hpp"
#include "tools/stat/table.hpp"
#include "tools/stat/watch.hpp"
#include <CLI/CLI.hpp>

namespace hbmwire::tools {
namespace {

using stats::Sample;
using stats::SplitBy;

constexpr const char* kDescription =
    "Shows the counters of processes that publish them: bytes and operations by path, failures,\n"
    "waits, registrations, times, and errors of their NICs. It does not disturb the processes.\n"
    "Without SECONDS it looks once.";

constexpr const char* kFooter = R"(
Processes
  Those of this user (root: of all users) that run with HBMWIRE_STATS=yes in their environment.

Table
  OPERATIONS and BYTES are those since the process began. RATE is that of the time since the sample
  before; in the first one of a process, since it began. MEMORY is this end's and the peer's.
  A process that ends while it is watched is shown once more, with its last counts.

Environment
  HBMWIRE_STATS        of the processes that are watched: yes publishes their counters
  HBMWIRE_STATS_PEERS  how many peers each of them counts by itself

Exit code
  0 all samples were shown, or a signal ended samples without COUNT; 1 they could not be written;
  2 the command line is wrong; 3 no process publishes its counters, or that of -p does not;
  130 or 143 a signal came before COUNT samples.

Examples
  HBMWIRE_STATS=yes hbmwire perf put_bw node2 &
  hbmwire stat 1
  hbmwire stat -p 4711 --by peer
  hbmwire stat --json 10 | jq .processes[].transfers[].bytes_per_second
  hbmwire stat --prometheus --save /var/lib/prometheus/node-exporter/hbmwire.prom 15
)";

struct StatOptions {
  std::vector<std::uint32_t> processes;
  SplitBy split = SplitBy::path;
  std::optional<double> seconds;       // between samples; empty for one sample
  std::optional<std::uint64_t> count;  // number of samples; empty: until a signal
  bool json = false;
  bool prometheus = false;
  std::string save_file;

  [[nodiscard]] Output::Mode output_mode() const noexcept {
    if (json) return Output::Mode::json;
    return prometheus ? Output::Mode::quiet : Output::Mode::text;
  }
};

/// The message about an option that would be ignored, or a combination that is impossible.
std::optional<std::string> contradiction_in(const StatOptions& options) {
  if (options.json && options.prometheus)
    return "--json and --prometheus are two formats; leave one of them out";
  if (!options.save_file.empty() && !options.prometheus)
    return "--save is about --prometheus; give that, too, or leave it out";
  if (options.prometheus && options.save_file.empty() && options.seconds)
    return "SECONDS with --prometheus needs a file that each sample replaces; give it with --save, "
           "or leave SECONDS out";
  if (options.split != SplitBy::path && (options.json || options.prometheus))
    return "--by is about the table, and --json and --prometheus have all labels; leave it out";
  return std::nullopt;
}

std::string time_of_day(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm local = {};
  ::localtime_r(&seconds, &local);
  return fmt::format("{:02}:{:02}:{:02}", local.tm_hour, local.tm_min, local.tm_sec);
}

/// The samples of one run of the command, and their output.
class Samples {
 public:
  Samples(const StatOptions& options, Output& output)
      : options_(options),
        output_(output),
        watch_({options.processes.begin(), options.processes.end()}) {}

  int run() {
    const auto ended = go();
    // All samples were printed already.
    if (ended && (options_.seconds || options_.prometheus)) return *ended;
    if (ended) return finish(output_, *ended, std::move(last_));
    if (!options_.seconds || !options_.json) return finish(output_, ended.error(), Json::object());
    // The error is also an object on one line.
    output_.error(ended.error().text);
    Json object = Json::object();
    add_error(object, ended.error());
    print_line(std::move(object), ended.error().exit_code);
    return ended.error().exit_code;
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// The exit code of a successful run.
  Outcome<int> go() {
    HBMWIRE_TRY_ASSIGN(const auto interrupt, Interrupt::create());
    Clock::time_point next = Clock::now();
    for (std::uint64_t i = 0; !options_.count || i < *options_.count; ++i) {
      if (i != 0 && !sleep(interrupt, next))
        return options_.count ? Interrupt::exit_code() : kExitOk;
      if (options_.save_file.empty()) HBMWIRE_TRY(output_.check());
      HBMWIRE_TRY_ASSIGN(const Sample sample, watch_.look());
      HBMWIRE_TRY(check_first(sample, i == 0));
      HBMWIRE_TRY(show(sample));
      if (!options_.seconds || (!options_.processes.empty() && !watch_.has_running())) break;
    }
    return kExitOk;
  }

  /// Sleeps until the next sample, and returns false if a signal came. Samples are taken at regular
  /// times, so that a slow sample does not delay the next ones.
  [[nodiscard]] bool sleep(const Interrupt& interrupt, Clock::time_point& next) const {
    const std::chrono::duration<double> step(*options_.seconds);
    const auto between = std::chrono::duration_cast<Clock::duration>(step);
    const Clock::time_point now = Clock::now();
    next += between;
    if (next < now) next = now;
    while (!Interrupt::happened()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
      if (left.count() <= 0) return true;
      pollfd signal{.fd = interrupt.fd(), .events = POLLIN, .revents = 0};
      const std::int64_t most = 3'600'000;  // poll(2) takes an int
      static_cast<void>(::poll(&signal, 1, static_cast<int>(std::min(left.count(), most))));
    }
    return false;
  }

  /// A first sample without a process is the user's mistake, with two exceptions. A command that
  /// looks at all processes repeatedly may still see one begin, and for Prometheus zero processes
  /// are a valid result.
  [[nodiscard]] Outcome<void> check_first(const Sample& sample, bool first) const {
    const bool empty = sample.processes.empty();
    if (!first || !empty || (options_.processes.empty() && is_lasting())) return {};
    if (!sample.unreadable.empty()) {
      const auto& found = sample.unreadable.front();
      Failure failure(found.error);
      failure.text = fmt::format("process {}: {}", found.process, failure.text);
      return tl::make_unexpected(std::move(failure));
    }
    return fail(
        "no process of this user publishes its counters; start one with HBMWIRE_STATS=yes "
        "in its environment",
        kExitUnavailable);
  }

  [[nodiscard]] bool is_lasting() const noexcept {
    return options_.seconds.has_value() || options_.prometheus;
  }

  Outcome<void> show(const Sample& sample) {
    if (options_.prometheus) return show_prometheus(stats::prometheus_text(sample));
    if (options_.json) {
      last_ = stats::to_json(sample);
      if (options_.seconds) print_line(std::move(last_), kExitOk);
    } else {
      print_table(sample);
    }
    return {};
  }

  Outcome<void> show_prometheus(const std::string& text) const {
    if (options_.save_file.empty()) {
      write_stdout(text);
      return {};
    }
    // Opened again for each sample, because its folder may have been replaced meanwhile.
    HBMWIRE_TRY_ASSIGN(auto file, TextFile::open(options_.save_file));
    return file.write(text);
  }

  void print_table(const Sample& sample) {
    if (options_.seconds) {
      if (std::exchange(shown_, true)) output_.line("");
      output_.line("{}{}", time_of_day(sample.time), is_emulated() ? " (emulated hardware)" : "");
    }
    for (const std::string& line : stats::table_lines(sample, options_.split))
      output_.line("{}", line);
  }

  void print_line(Json object, int exit_code) const {
    object["emulated"] = is_emulated();
    object["exit_code"] = exit_code;
    output_.json_line(object);
  }

  const StatOptions& options_;
  Output& output_;
  stats::Watch watch_;
  Json last_ = Json::object();
  bool shown_ = false;  // a table was printed already
};

void add_options(CLI::App& app, StatOptions& options) {
  static const std::map<std::string, SplitBy> kSplits{
      {"path", SplitBy::path}, {"nic", SplitBy::nic}, {"peer", SplitBy::peer}};
  constexpr double kLeastSeconds = 0.1;
  constexpr double kMostSeconds = 86'400;
  app.add_option_function<double>(
         "SECONDS", [&options](const double& seconds) { options.seconds = seconds; },
         "Look again and again, with so long between (0.1 and more)")
      ->check(CLI::Validator(
          [](const std::string& text) -> std::string {
            double seconds = 0;
            const bool good = CLI::detail::lexical_cast(text, seconds) &&
                              seconds >= kLeastSeconds && seconds <= kMostSeconds;
            return good ? "" : "give a number from 0.1 to 86400";
          },
          ""))
      ->option_text(" ");
  app.add_option_function<std::uint64_t>(
         "COUNT", [&options](const std::uint64_t& count) { options.count = count; },
         "So many samples; without it until a signal ends them")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000'000}))
      ->option_text(" ");
  app.add_option("-p,--pid", options.processes,
                 "Only this process, or these with commas between; ends when all of them have")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(std::uint32_t{1}, std::uint32_t{4'194'304}))  // the kernel's PID_MAX_LIMIT
      ->option_text("PID[,...]");
  app.add_option_function<std::string>(
         "--by", [&options](const std::string& name) { options.split = kSplits.at(name); },
         "Rows of the table by path, and by NIC or peer, too")
      ->check(CLI::IsMember({"path", "nic", "peer"}))
      ->option_text("path|nic|peer [path]");
  app.add_flag("--json", options.json, "One JSON object instead of text; with SECONDS one a line");
  app.add_flag("--prometheus", options.prometheus, "Text for Prometheus instead of the table");
  app.add_option("--save", options.save_file,
                 "Write the text of --prometheus to a file, which is replaced as a whole")
      ->option_text("FILE");
}

}  // namespace

int run_stat(int argc, char** argv) {
  const std::string program = argv[0];
  StatOptions options;
  CLI::App app(kDescription, program);
  app.footer(kFooter);
  add_options(app, options);
  if (const auto code = parse_command_line(app, program, argc, argv)) return *code;
  Output output(program, options.output_mode());
  if (const auto mistake = contradiction_in(options)) return usage_error(output, *mistake);
  return Samples(options, output).run();
}

}  // namespace hbmwire::tools

// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tools/common/command_line.hpp"
#include "tools/common/finish.hpp"
#include "tools/common/interrupt.hpp"
#include "tools/common/memory_choice.hpp"
#include "tools/common/text_file.hpp"
#include "tools/doctor/evidence/archive.hpp"
#include "tools/doctor/evidence/live_machine.hpp"
#include "tools/doctor/evidence/recorder.hpp"
#include "tools/doctor/evidence/scrub.hpp"
#include "tools/doctor/explain.hpp"
#include "tools/doctor/pairs/child.hpp"
#include "tools/doctor/pairs/runner.hpp"
#include "tools/doctor/remote/serve.hpp"
#include "tools/doctor/remote/two_machine_run.hpp"
#include "tools/doctor/remote/two_machines.hpp"
#include "tools/doctor/report/report.hpp"
#include <CLI/CLI.hpp>

namespace hbmwire::tools {
namespace {

constexpr const char* kDoctorDescription =
    "Tries every accelerator with every RDMA NIC of this machine: allocates, exports, registers,\n"
    "writes and reads in loopback, compares every byte in the memory itself, and times it. Says\n"
    "in a sentence whether it works, and names the first cause and the remedy of a failure.\n"
    "Takes a minute at most, and no card that another process has.\n"
    "With HOST, where `hbmwire doctor --serve` waits: tries the NICs and memories of both "
    "machines\n"
    "with each other, and compares the two.\n\n"
    "commands:\n"
    "  explain  tell more about an error, by the name that the tools print in brackets after\n"
    "           its sentence; in a program it is Error::hint";

constexpr const char* kDoctorFooter = R"(
The report
  The first line is the verdict. The table has a row for each memory and a column for each NIC: GB/s
  of the slower direction, and their share of what the port's link and PCIe allow. Then follows all
  that is wrong, first cause first: findings of checks ([name]), each with what was found, what is
  wanted and what mends it ("->"), and the failures that they explain.
  Without a NIC the engines, IPC and TCP are tried, without an accelerator the NICs with host memory.

Exit code
  0 all is well; 1 something does not work; 2 the command line or a setting is wrong; 3 not all could
  be tried: there is neither a NIC nor an accelerator, one that was asked for is missing, or another
  process has a card; 4 it works, and slowly: less than half of what is possible, or by way of host
  memory.

Examples
  hbmwire doctor
  hbmwire doctor --quick
  hbmwire doctor -d mlx5_0 --memory gaudi:0
  hbmwire doctor --save machine.json; hbmwire doctor --replay machine.json
  hbmwire doctor --serve                (on node2)
  hbmwire doctor node2
  hbmwire doctor explain dmabuf_not_supported
  hbmwire emulate --nics 2 --gaudi 2 --without emu1=dmabuf -- hbmwire doctor
)";

struct DoctorOptions {
  doctor::PairOptions pairs;
  bool quick = false;
  bool json = false;
  bool with_addresses = false;
  std::string save_file;
  std::string replay_file;
  std::string host;  ///< as typed; empty if only this machine is examined
  bool serve = false;
  std::string bind;
  std::uint16_t port = doctor::kServePort;
  std::uint32_t minutes = 60;
};

/// The variables that receive options, and whether the options were given.
struct DoctorLine {
  DoctorOptions options;
  bool host_given = false;
  bool timeout_given = false;
  bool port_given = false;
  bool minutes_given = false;
};

void add_choice_options(CLI::App& app, DoctorLine& line) {
  DoctorOptions& options = line.options;
  app.add_option("-d,--nic", options.pairs.selection.nics,
                 "Only this RDMA NIC, or port of one (NAME:PORT); may be given more than once")
      ->allow_extra_args(false)  // each -d has one value: a further word is HOST
      ->option_text("NAME");
  add_memory_option(app, options.pairs.selection.memories);
  app.add_option_function<std::uint32_t>(
         "--timeout",
         [&line](const std::uint32_t& seconds) {
           line.options.pairs.step = std::chrono::seconds(seconds);
           line.timeout_given = true;
         },
         "A step that takes longer has failed")
      ->check(CLI::Range(1, 3600))
      ->option_text("SECONDS [10]");
}

void add_doctor_options(CLI::App& app, DoctorLine& line) {
  DoctorOptions& options = line.options;
  app.add_flag("--quick", options.quick, "The checks alone, and no transfer: a second or two");
  add_choice_options(app, line);
  app.add_option("--save", options.save_file, "Write all that was read of the machine to a file")
      ->option_text("FILE");
  app.add_flag("--with-addresses", options.with_addresses,
               "Keep addresses, serial numbers and host names in the file of --save");
  app.add_option("--replay", options.replay_file,
                 "Report on the machine of a saved file, or of a dump of rdma_topo")
      ->option_text("FILE");
  app.add_flag("--json", options.json, "One JSON object instead of text");
}

void add_remote_options(CLI::App& app, DoctorLine& line) {
  DoctorOptions& options = line.options;
  app.add_option(
         "HOST", options.host,
         "Try the pairs between this machine and that one, on which `doctor --serve` waits; its "
         "port behind it if wanted")
      ->option_text(" ");
  app.add_flag("--serve", options.serve, "Wait for doctors of other machines, one at a time");
  app.add_option_function<std::uint16_t>(
         "-p,--port",
         [&line](const std::uint16_t& port) {
           line.options.port = port;
           line.port_given = true;
         },
         "Port of TCP, and of UDP, of --serve; 0: a free one")
      ->check(is_port())
      ->option_text(fmt::format("PORT [{}]", doctor::kServePort));
  app.add_option("--bind", options.bind,
                 "Address that --serve listens on, its port behind it if wanted; all if not given")
      ->option_text("ADDRESS");
  app.add_option_function<std::uint32_t>(
         "--minutes",
         [&line](const std::uint32_t& minutes) {
           line.options.minutes = minutes;
           line.minutes_given = true;
         },
         "--serve ends by itself after so long")
      ->check(CLI::Range(1, 10080))
      ->option_text("MINUTES [60]");
}

/// Like doctor_contradiction(), for two machines.
std::optional<std::string> remote_contradiction(const DoctorLine& line) {
  const DoctorOptions& options = line.options;
  const bool remote = options.serve || line.host_given;
  if (options.serve && line.host_given)
    return "--serve waits for other machines, and HOST is one to go to; leave one of them out";
  if (remote && (options.quick || !options.save_file.empty() || !options.replay_file.empty()))
    return "--quick, --save and --replay are about one machine, and HOST and --serve about two; "
           "leave them out";
  if (options.serve && options.json)
    return "--json is about a report, and --serve makes none; leave one of them out";
  if (!options.serve && (!options.bind.empty() || line.minutes_given))
    return "--bind and --minutes are about --serve; give that, too, or leave them out";
  if (line.host_given && options.host.empty())
    return "HOST is empty; give the name or the address of the other machine";
  if (line.host_given && options.port == 0)
    return "port 0 is for --serve, which takes a free one; give HOST the port that it printed";
  if (!remote && line.port_given)
    return "-p is about --serve and HOST; give one of them, or leave it out";
  return std::nullopt;
}

/// Returns the message about an option that would be ignored.
std::optional<std::string> doctor_contradiction(const DoctorLine& line) {
  const DoctorOptions& options = line.options;
  const bool replay = !options.replay_file.empty();
  const bool chosen = !options.pairs.selection.nics.empty() ||
                      !options.pairs.selection.memories.empty() || line.timeout_given;
  if (const auto mistake = remote_contradiction(line)) return mistake;
  if (replay && !options.save_file.empty())
    return "--save writes what was read of this machine, and --replay reads another one's; leave "
           "one of them out";
  if (replay && (chosen || options.quick))
    return "-d, --memory, --timeout and --quick are about this machine, and --replay reads another "
           "one's; leave them out";
  if (options.quick && chosen)
    return "-d, --memory and --timeout are about transfers, and --quick makes none; leave one of "
           "them out";
  if (options.with_addresses && options.save_file.empty())
    return "--with-addresses is about the file of --save; give that, too, or leave it out";
  return std::nullopt;
}

/// Prints a report on one machine or two. Returns its exit code, or that of the failure to save the
/// archive.
template <class Report>
int print(const Report& report, Output& output, const std::optional<Failure>& unsaved = {}) {
  const doctor::ReportStyle style{.columns = 80, .coloured = has_colours(STDOUT_FILENO)};
  for (const std::string& line : doctor::report_lines(report, style)) output.line("{}", line);
  if (unsaved) return finish(output, *unsaved, doctor::to_json(report));
  output.json(doctor::to_json(report));
  const int code = report.conclusion.exit_code;
  // Without the report nothing else explains the exit code. If that is 0, the main program reports
  // the failed write.
  if (const auto written = written_stdout(); !written && code != kExitOk)
    output.error(written.error().text);
  return code;
}

int replay(const DoctorOptions& options, Output& output) {
  auto record = doctor::read_record(options.replay_file);
  if (!record) return finish(output, record.error(), Json::object());
  const bool emulated = record->emulated;
  doctor::Archive machine(std::move(*record));
  const auto report = doctor::make_report(machine, emulated);
  if (!report) return finish(output, report.error(), Json::object());
  return print(*report, output);
}

Outcome<void> save(const doctor::Record& record, const DoctorOptions& options, TextFile& file) {
  return file.write(doctor::archive_text(
      options.with_addresses ? record : doctor::scrubbed(record, doctor::names_of_this_machine())));
}

/// Examines this machine.
int look(const DoctorOptions& options, Output& output) {
  const auto interrupt = Interrupt::create();
  if (!interrupt) return finish(output, interrupt.error(), Json::object());
  std::optional<TextFile> file;
  if (const auto opened = TextFile::open(options.save_file, file); !opened)
    return finish(output, opened.error(), Json::object());
  doctor::LiveMachine machine;
  if (!options.quick) {
    // Runs before any other examination, because its processes must start without open devices.
    const auto pairs = doctor::run_pairs(options.pairs, *interrupt, output);
    if (!pairs) return finish(output, pairs.error(), Json::object());
    machine.add_call("pairs", [json = doctor::to_json(*pairs)] { return Json{{"value", json}}; });
  }
  doctor::Recorder recorder(machine);
  const auto report = doctor::make_report(recorder, is_emulated());
  if (!report) return finish(output, report.error(), Json::object());
  // Ctrl-C also interrupts the programs that the checks ran, so their answers are missing.
  if (Interrupt::happened()) return finish(output, doctor::interrupted_failure(), Json::object());
  // Saved before the report, which may fail to reach a reader.
  std::optional<Failure> unsaved;
  if (file) {
    if (const auto saved = save(recorder.record(), options, *file); !saved) unsaved = saved.error();
  }
  return print(*report, output, unsaved);
}

/// Examines this machine, HOST, and their connection.
int between(const DoctorOptions& options, Output& output) {
  const auto interrupt = Interrupt::create();
  if (!interrupt) return finish(output, interrupt.error(), Json::object());
  auto machines = doctor::run_two_machines({.host = options.host, .port = options.port},
                                           options.pairs, *interrupt, output);
  if (!machines) return finish(output, machines.error(), Json::object());
  return print(doctor::report_on(std::move(*machines)), output);
}

int serve(const DoctorOptions& options, Output& output) {
  const auto interrupt = Interrupt::create();
  if (!interrupt) return finish(output, interrupt.error(), Json::object());
  return doctor::serve({.bind = options.bind,
                        .port = options.port,
                        .time = std::chrono::minutes(options.minutes),
                        .selection = options.pairs.selection,
                        .step = options.pairs.step},
                       *interrupt, output);
}

int run(const DoctorOptions& options, Output& output) {
  if (options.serve) return serve(options, output);
  if (!options.host.empty()) return between(options, output);
  return options.replay_file.empty() ? look(options, output) : replay(options, output);
}

/// Splits HOST, or the address of --bind, from a port that follows it.
std::optional<std::string> split_place(CLI::App& app, DoctorOptions& options) {
  std::string& text = options.serve ? options.bind : options.host;
  if (text.empty()) return std::nullopt;
  const auto place = place_of(text, options.port, *app.get_option("--port"));
  if (!place) return place.error().text;
  text = place->host;
  options.port = place->port;
  return std::nullopt;
}

}  // namespace

int run_doctor(int argc, char** argv) {
  std::string program = argv[0];
  if (argc > 1 && std::string_view(argv[1]) == "explain") {
    program += " explain";
    argv[1] = program.data();
    return run_explain(argc - 1, argv + 1);
  }
  DoctorLine line;
  CLI::App app(kDoctorDescription, program);
  app.footer(kDoctorFooter);
  add_doctor_options(app, line);
  add_remote_options(app, line);
  if (const auto code = parse_command_line(app, program, argc, argv)) return *code;
  line.host_given = app.count("HOST") != 0;
  Output output(program, line.options.json ? Output::Mode::json : Output::Mode::text);
  if (const auto mistake = doctor_contradiction(line)) return usage_error(output, *mistake);
  if (const auto mistake = split_place(app, line.options)) return usage_error(output, *mistake);
  // The file of --save is useful without the report, too.
  const auto good = output.check();
  if (!good && line.options.save_file.empty()) return finish(output, good.error(), Json::object());
  return run(line.options, output);
}

}  // namespace hbmwire::tools

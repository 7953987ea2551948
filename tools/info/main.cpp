// SPDX-License-Identifier: MIT
#include "hbmwire/settings.hpp"
#include "hbmwire/version.hpp"

#include "tools/common/command_line.hpp"
#include "tools/common/finish.hpp"
#include "tools/info/json.hpp"
#include "tools/info/machine.hpp"
#include "tools/info/text.hpp"
#include <CLI/CLI.hpp>

namespace hbmwire::tools {
namespace {

constexpr const char* kDescription =
    "Shows what hbmwire finds on this machine: RDMA NICs, accelerators, how near they are to each\n"
    "other, and the settings. For missing hardware it names cause and remedy. Opens no "
    "accelerator.\n"
    "Without -d and -c it prints an overview.";

constexpr const char* kFooter = R"(
Devices (-d)
  Each RDMA NIC with its PCI address, NUMA node, firmware, whether its driver imports dma-bufs, its
  limits and how many peers they make (queue pairs, of which an endpoint has two), and each port with
  its state, link, rate, MTU and GIDs; the GID that is used is marked. Each type of memory with the
  library that drives it, its devices, and their NICs from the nearest to the farthest:
    PIX   the same PCIe switch or root port      NODE  the same NUMA node
    PHB   the same host bridge                   SYS   across NUMA nodes
  "missing" and "not usable" are followed by the cause and the remedy.

Settings (-c)
  Each with its help, choices, default, value, and where the value comes from: default, environment,
  or file and line. The output is itself a settings file:
    hbmwire info -c > hbmwire.conf; HBMWIRE_CONFIG=hbmwire.conf hbmwire server

Environment
  HBMWIRE_CONFIG     a file of lines NAME=VALUE with the names that -c prints; variables of the
                     environment go before it
  HBMWIRE_LOG_LEVEL  debug tells which libraries were tried, and why a look for devices failed
  HWLOC_XMLFILE      another machine's topology instead of this one's (hwloc(7))

Exit code
  0 all is told, also when hardware is missing; 2 the command line or a setting is wrong.

Examples
  hbmwire info
  hbmwire info -d
  hbmwire emulate --nics 2 --gaudi 2 -- hbmwire info -d
  hbmwire info --json | jq '.memory[] | select(.type == "gaudi") | .devices[].nics[0].name'
  HBMWIRE_LOG_LEVEL=debug hbmwire info
)";

struct InfoOptions {
  bool devices = false;
  bool config = false;
  bool json = false;

  // The overview, and --json without other options, show both.
  [[nodiscard]] bool wants_machine() const noexcept { return devices || !config; }

  [[nodiscard]] bool wants_settings() const noexcept { return config || !devices; }
};

int tell(const InfoOptions& options, Output& output) {
  if (const auto good = output.check(); !good) return finish(output, good.error(), Json::object());
  const std::string name = "hbmwire " + to_string(version());
  Json summary = version_json();
  const auto settings = describe_settings();
  if (options.wants_settings()) summary.update(settings_json(settings));
  // Settings come before the first failure, because its message sends users here to see the valid
  // values.
  if (options.config) {
    output.line("# {}: settings{}", name, is_emulated() ? " (emulated hardware)" : "");
    print_settings(output, settings);
  }
  if (!options.wants_machine()) {
    const auto good = settings_from_environment();
    return good ? finish(output, kExitOk, summary) : finish(output, good.error(), summary);
  }
  const auto machine = look_at_machine();
  if (!machine) return finish(output, machine.error(), summary);
  summary.update(machine_json(*machine));
  if (options.config) output.line("");
  print_headline(output, name);
  if (options.devices) {
    print_devices(output, *machine);
  } else {
    print_overview(output, *machine, settings);
  }
  return finish(output, kExitOk, summary);
}

}  // namespace

int run_info(int argc, char** argv) {
  const std::string program = argv[0];
  InfoOptions options;
  CLI::App app(kDescription, program);
  app.footer(kFooter);
  app.add_flag("-d,--devices", options.devices, "NICs, accelerators, memory, distances");
  app.add_flag("-c,--config", options.config, "Every setting, its value, and where it comes from");
  app.add_flag("--json", options.json,
               "One JSON object instead of text: all, or what -d or -c choose");
  if (const auto code = parse_command_line(app, program, argc, argv)) return *code;
  Output output(program, options.json ? Output::Mode::json : Output::Mode::text);
  return tell(options, output);
}

}  // namespace hbmwire::tools

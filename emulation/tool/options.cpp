// SPDX-License-Identifier: MIT
#include "emulation/tool/options.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <span>
#include <sstream>

#include "emulation/common/faults.hpp"
#include "emulation/tool/child.hpp"
#include "emulation/tool/command_line.hpp"
#include <CLI/CLI.hpp>

namespace hbmwire::emulation::tool {
namespace {

constexpr const char* kDescription =
    "Runs COMMAND, and all programs that it starts, on a machine with RDMA NICs, Gaudi cards and\n"
    "GPUs that are not there. COMMAND may be any program: it finds the devices below the system's\n"
    "own libibverbs and the vendors' libraries (libhl-thunk, libcuda, ...), as it would find\n"
    "hardware.";

constexpr const char* kFooter = R"(
Worlds
  Two runs without --name and --fabric do not meet. --name X joins, from another terminal, the node
  that a run with --name X has set up: the same NICs, the same cards with their owners. --fabric F
  puts a node of its own into F, whose nodes reach each other. The last process of a node out
  removes what the node left, also after kill -9.

Environment
  HBMWIRE_EMULATION_DIR   the default of --dir
  COMMAND sees HBMWIRE_EMULATED=1, HBMWIRE_EMULATION_FABRIC, HBMWIRE_EMULATION_NODE,
  HBMWIRE_EMULATION_FAULTS, SYSFS_PATH, IBV_DRIVERS and LD_LIBRARY_PATH.

Exit code
  that of COMMAND; 128+N when signal N ended it; 127 COMMAND not found, 126 not executable,
  125 the emulated hardware could not be set up, 2 the command line is wrong.

Examples
  hbmwire emulate --nics 2 --gaudi 8 -- ibv_devinfo
  hbmwire emulate --gaudi 0 --cuda 2 -- ./my_test
  hbmwire emulate --gaudi 0 --keep cuda -- ./my_test
  hbmwire emulate --fabric lab --name a -- ib_write_bw            (one terminal)
  hbmwire emulate --fabric lab --name b -- ib_write_bw 127.0.0.1  (another)
  hbmwire emulate --fabric lab --name a --link emu0=down          (a third)
  hbmwire emulate --nics 2 --link-layer infiniband -- ib_write_bw
  hbmwire emulate --async --rate 100G --latency 2us -- ./my_test
  hbmwire emulate --faults 'fail,call=ibv_reg_dmabuf_mr,nth=1,errno=12' -- ./test
)";

// CLI11's usage line does not mention COMMAND.
struct HelpFormatter : CLI::Formatter {
  std::string make_usage(const CLI::App* /*app*/, std::string /*name*/) const override {
    return "Usage: hbmwire emulate [OPTION]... -- COMMAND [ARGUMENT]...\n"
           "       hbmwire emulate [--fabric F] [--name X] --link emuN[/PORT]=down|up ...\n";
  }
};

// Removes CLI11's description of a value, because the help text has one.
CLI::Validator unnamed(CLI::Validator validator) { return validator.description(""); }

/// Joins names as "a|b|c", the form that shell completion finds in the help.
std::string alternatives(const std::vector<std::string_view>& names) {
  return fmt::format("{}", fmt::join(names, "|"));
}

std::vector<std::string_view> kind_names() {
  std::vector<std::string_view> names;
  for (const CardKind kind : kCardKinds) names.push_back(name_of(kind));
  return names;
}

std::vector<std::string_view> family_names() {
  std::vector<std::string_view> names;
  for (const CardFamily family : kCardFamilies) names.push_back(name_of(family));
  return names;
}

CLI::Validator is_one_of(const std::vector<std::string_view>& names) {
  return unnamed(CLI::IsMember(std::vector<std::string>(names.begin(), names.end())));
}

std::string check_name(const std::string& name) {
  const bool good = !name.empty() && name.size() <= 64 && name.front() != '.' &&
                    std::ranges::all_of(name, [](char c) {
                      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                             (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
                    });
  return good ? "" : "a name is 1 to 64 of A-Z a-z 0-9 . _ -, and does not begin with '.'";
}

// In a file, a plan may have one rule in each line, and comments.
Result<std::string> read_plan(const std::string& argument) {
  if (argument.empty() || argument.front() != '@') return argument;
  std::ifstream file(argument.substr(1));
  if (!file) return cannot("read the fault plan " + argument.substr(1));
  std::string plan;
  for (std::string line; std::getline(file, line);) {
    plan += line.substr(0, line.find('#')) + ';';
  }
  return plan;
}

Status check_plan(const std::string& plan) {
  std::vector<emulation::FaultRule> rules;
  std::string error;
  if (!emulation::parse_fault_plan(plan, rules, error)) return problem(error);
  return {};
}

int usage_error(const std::string& sentence) {
  fmt::print(stderr, "hbmwire emulate: {}\nSee hbmwire emulate --help.\n", sentence);
  return kExitUsage;
}

int show(const std::string& help) {
  // A reader that has gone away is an error, as is a full disk.
  ::signal(SIGPIPE, SIG_IGN);
  const bool printed = std::fputs(help.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  if (printed) return 0;
  fmt::print(stderr,
             "hbmwire emulate: writing to standard output: {}; lead it to a file with room, or to "
             "a program that reads it\n",
             std::strerror(errno));
  return kExitUnwritten;
}

const CLI::Option* add_cards(CLI::App& app, const char* name, unsigned& count, const char* help) {
  return app.add_option(name, count, fmt::format(fmt::runtime(help), kMaxCards))
      ->type_name("N")
      ->check(unnamed(CLI::Range(0U, kMaxCards)));
}

/// Notes the families of --keep. Returns an empty string if they may be kept beside the emulated
/// cards, and a sentence if not.
std::string keep_families(const std::vector<std::string>& names, Options& options) {
  options.keep_given = !names.empty();
  for (const std::string& name : names)
    options.hardware.kept.set(static_cast<std::size_t>(*family_from_name(name)));
  const bool gaudi_given = options.cards_given.at(static_cast<std::size_t>(CardFamily::gaudi));
  if (options.hardware.keeps(CardFamily::gaudi)) {
    if (!gaudi_given) options.hardware.gaudi = 0;  // its default is 1
    if (options.kind_given)
      return "--keep gaudi has no emulated card of the kind of --gaudi-kind; leave either out";
  }
  if (options.hardware.keeps(CardFamily::rocm) && options.bar_given)
    return "--keep rocm has no emulated GPU with the BAR of --bar; leave either out";
  for (const auto family : kCardFamilies) {
    const unsigned emulated = options.hardware.cards(family);
    if (!options.hardware.keeps(family) || emulated == 0) continue;
    return fmt::format(
        "--keep {0} leaves the machine's own library in place, and --{0} {1} puts an emulated one "
        "of the same name before it; leave either out",
        name_of(family), emulated);
  }
  return {};
}

const char* default_parent() {
  const char* parent = std::getenv("HBMWIRE_EMULATION_DIR");
  return parent != nullptr && *parent != '\0' ? parent : "/dev/shm";
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): a list of options, as long as it is.
std::variant<Options, int> parse_options(int argc, char** argv) {
  // Words after the first "--" belong to COMMAND, so CLI11 does not see them.
  char** const end = argv + argc;
  char** const dashes =
      std::find_if(argv + 1, end, [](char* a) { return std::strcmp(a, "--") == 0; });

  Options options;
  std::string kind = "gaudi2";
  std::string faults;
  std::vector<std::string> links;
  std::string parent = default_parent();
  bool no_namespaces = false;

  CLI::App app{kDescription, "hbmwire emulate"};
  app.formatter(std::make_shared<HelpFormatter>());
  app.footer(kFooter);
  const auto* nics =
      app.add_option("--nics", options.hardware.nics,
                     fmt::format("RDMA NICs, emu0, emu1, ...: 0 to {} (default 1)", kMaxNics))
          ->type_name("N")
          ->check(unnamed(CLI::Range(0U, kMaxNics)));
  const auto* ports =
      app.add_option("--ports", options.hardware.ports,
                     fmt::format("ports of each NIC: 1 to {} (default 1)", kMaxPorts))
          ->type_name("N")
          ->check(unnamed(CLI::Range(1U, kMaxPorts)));
  const std::array cards = {
      add_cards(app, "--gaudi", options.hardware.gaudi, "Gaudi cards: 0 to {} (default 1)"),
      add_cards(app, "--cuda", options.hardware.cuda,
                "NVIDIA GPUs (H100, 80 GiB): 0 to {} (default 0)"),
      add_cards(app, "--rocm", options.hardware.rocm,
                "AMD GPUs (MI300X, 192 GiB): 0 to {} (default 0)")};
  const auto* kind_option =
      app.add_option("--gaudi-kind", kind,
                     "gaudi (32 GiB), gaudi2 (96 GiB) or gaudi3 (128 GiB); default gaudi2")
          ->type_name(alternatives(kind_names()))
          ->check(is_one_of(kind_names()));
  const std::vector<std::string_view> bars{kLargeBar, kSmallBar};
  std::string bar{kLargeBar};
  const auto* bar_option =
      app.add_option("--bar", bar,
                     "of AMD GPUs: large (the CPU may touch their memory, the default) or small")
          ->type_name(alternatives(bars))
          ->check(is_one_of(bars));
  std::vector<std::string> keep;
  app.add_option("--keep", keep,
                 "leave the machine's own accelerators of a family, their library and their device "
                 "nodes as they are, beside the emulated NICs")
      ->type_name(alternatives(family_names()) + "[,FAMILY]")
      ->delimiter(',')
      ->take_all()
      ->check(is_one_of(family_names()));
  auto& behaviours = options.behaviours;
  std::vector<const CLI::Option*> behaviour_options;
  behaviour_options.push_back(
      app.add_option("--async", behaviours.async,
                     fmt::format("requests are under way for up to TIME (default {}), by chance, "
                                 "when ibv_post_send returns",
                                 kDefaultAsync))
          ->type_name("[TIME]")
          ->expected(0, 1)
          ->default_str(kDefaultAsync));
  behaviour_options.push_back(
      app.add_option("--seed", behaviours.seed, "of all chance events (default 1)")
          ->type_name("N"));
  behaviour_options.push_back(
      app.add_option("--rate", behaviours.rate,
                     "bits a second of all NICs, or of one, in each direction: 400M, 25G")
          ->type_name("[emuN=]RATE")
          ->take_all());
  behaviour_options.push_back(
      app.add_option("--latency", behaviours.latency, "one way, of all NICs, or of one: 800ns, 5us")
          ->type_name("[emuN=]TIME")
          ->take_all());
  behaviour_options.push_back(
      app.add_option("--like-hardware", behaviours.like,
                     "flush: a card sees what came in only after a flush; scatter: small receives "
                     "stay in the CQE until polled; relaxed: writes land in any order where asked "
                     "for; all")
          ->type_name(alternatives(trait_names()) + "[,TRAIT]")
          ->delimiter(',')
          ->take_all());
  behaviour_options.push_back(
      app.add_option("--without", behaviours.without, "a feature that all NICs, or one, lack")
          ->type_name("[emuN=]" + alternatives(feature_names()))
          ->take_all());
  behaviour_options.push_back(
      app.add_option("--limits", behaviours.limits,
                     "how many queue pairs (qp), completion queues (cq), entries of one (cqe), "
                     "memory regions (mr) and shared receive queues (srq) all NICs, or one, have: "
                     "qp=100,srq=0")
          ->type_name("[emuN=]OBJECT=N,...")
          ->take_all());
  behaviour_options.push_back(
      app.add_option("--link-layer", behaviours.link_layer,
                     "ethernet (RoCE, the default) or infiniband: of all NICs, or of one")
          ->type_name("[emuN=]" + alternatives(link_layer_names()))
          ->take_all());
  app.add_option("--name", options.node, "set up node X, or join it")
      ->type_name("X")
      ->check(CLI::Validator(check_name, ""));
  app.add_option("--fabric", options.fabric,
                 "set up fabric F, or join it (default: node-X with --name X, else one of its own)")
      ->type_name("F")
      ->check(CLI::Validator(check_name, ""));
  app.add_option("--faults", faults,
                 "the faults, and when they happen; @FILE reads them from a file (see the manual, "
                 "emulate.md)")
      ->type_name("PLAN");
  app.add_option(
         "--link", links,
         "take the link of emuN, or of one port of it, down or up; without COMMAND in a node "
         "that runs: that of --name X, or the one around this program")
      ->type_name("emuN[/PORT]=down|up")
      ->take_all();
  app.add_option("--dir", parent,
                 "where hbmwire-<uid>/ is made, which holds the cards' memory (default /dev/shm)")
      ->type_name("DIR");
  app.add_flag("--no-namespaces", no_namespaces,
               "make nodes in the real /dev instead of a private view of /dev and /sys");
  app.add_flag("--quiet", options.quiet,
               "do not say on stderr that the hardware is emulated, and which functions are not");

  const std::span<char* const> words(argv + 1, dashes);
  if (const auto mistake = mistake_in_words(app, words); !mistake.empty())
    return usage_error(mistake);
  try {
    app.parse(static_cast<int>(dashes - argv), argv);
  } catch (const CLI::CallForHelp&) {
    return show(app.help());
  } catch (const CLI::ParseError& error) {
    return usage_error(mistake_of(app, error));
  }
  const bool has_command = dashes != end && dashes + 1 != end;
  // --link alone, without "--", changes a running node.
  if (!has_command && (links.empty() || dashes != end))
    return usage_error("COMMAND is missing; it follows '--'");

  options.nics_given = nics->count() > 0;
  options.ports_given = ports->count() > 0;
  for (std::size_t i = 0; i < cards.size(); ++i) options.cards_given.at(i) = cards[i]->count() > 0;
  options.kind_given = kind_option->count() > 0;
  options.hardware.gaudi_kind = *kind_from_name(kind);
  options.bar_given = bar_option->count() > 0;
  options.hardware.large_bar = bar == kLargeBar;
  if (const auto mistake = keep_families(keep, options); !mistake.empty())
    return usage_error(mistake);
  for (const auto* option : behaviour_options) options.behaviours_given |= option->count() > 0;
  const bool no_nics = options.nics_given && options.hardware.nics == 0;
  if (no_nics && (options.ports_given || options.behaviours_given || !links.empty())) {
    return usage_error(
        "--nics 0 has no NIC, and --ports, --link and what NICs do are about one; leave either "
        "out");
  }
  const bool gaudi_given = options.cards_given.at(static_cast<std::size_t>(CardFamily::gaudi));
  if (options.kind_given && gaudi_given && options.hardware.gaudi == 0)
    return usage_error("--gaudi 0 has no card of the kind of --gaudi-kind; leave either out");
  // Checks only the form of these options. The number of NICs may be known only to the node.
  Hardware tried;
  tried.nics = options.nics_given ? options.hardware.nics : kMaxNics;
  if (const auto good = apply(behaviours, tried); !good) return usage_error(good.error());
  options.parent = parent;
  options.namespaces = !no_namespaces;
  options.command = has_command ? dashes + 1 : nullptr;
  for (const auto& text : links) {
    const auto change = parse_link(text);
    if (!change) return usage_error(change.error());
    options.links.push_back(*change);
  }
  const auto plan = read_plan(faults);
  if (!plan) return usage_error(plan.error());
  if (const auto good = check_plan(*plan); !good) return usage_error(good.error());
  // A seed in the plan comes after this one and overrides it.
  const auto& seed = options.behaviours.seed;
  options.faults = plan->empty() || !seed ? *plan : fmt::format("seed={};{}", *seed, *plan);
  return options;
}

}  // namespace hbmwire::emulation::tool

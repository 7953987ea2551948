// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <optional>

#include "bench/common/by_nic.hpp"
#include "bench/common/report.hpp"
#include "bench/scale/measure.hpp"
#include "bench/scale/storm.hpp"
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace hbmwire::bench {
namespace {

struct Options {
  std::vector<std::size_t> connections = {1, 100, 1000};
  std::vector<std::string> libraries;
  unsigned runs = 3;
  unsigned storm = 1000;
  bool quick = false;
  bool json = false;
};

struct Run {
  std::string library;
  std::size_t connections = 0;
  Figures figures;
};

/// A limit for a thousand or ten thousand endpoints (docs/scale.md).
struct Bound {
  const char* name;
  double value;
  double most;
};

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

std::string head() {
  return fmt::format("{:<10} {:>6}  {:>10} {:>10} {:>11} {:>11} {:>9} {:>9} {:>9}\n", "library",
                     "peers", "KiB here", "KiB there", "connect ms", "last ms", "put ns", "idle ns",
                     "close ms");
}

std::string line(const Run& run) {
  const Figures& f = run.figures;
  return fmt::format(
      "{:<10} {:>6}  {:>10.1f} {:>10.1f} {:>11.2f} {:>11.2f} {:>9.1f} {:>9.1f} {:>9.3f}\n",
      run.library, run.connections, f.here_kib, f.there_kib, f.connect_first_ms, f.connect_last_ms,
      f.put_ns, f.progress_ns, f.close_ms);
}

const Figures* find(const std::vector<Run>& runs, const std::string& library,
                    std::size_t connections) {
  for (const Run& run : runs) {
    if (run.library == library && run.connections == connections) return &run.figures;
  }
  return nullptr;
}

std::vector<Bound> bounds(const std::vector<Run>& runs, std::optional<double> storm_ms) {
  constexpr std::size_t kPeers = 1000;
  constexpr std::size_t kManyPeers = 10000;
  std::vector<Bound> all;
  if (storm_ms) all.push_back({"all connected, of a storm, s", *storm_ms / 1000, 20});
  if (const Figures* const many = find(runs, our_library().name, kManyPeers)) {
    const auto gib = [](double kib_each) { return kib_each * kManyPeers / (1024 * 1024); };
    all.push_back({"memory of 10,000 endpoints here, GiB", gib(many->here_kib), 1.5});
    all.push_back({"memory of 10,000 endpoints there, GiB", gib(many->there_kib), 1.5});
  }
  const Figures* const ours = find(runs, our_library().name, kPeers);
  if (ours == nullptr) return all;
  all.insert(all.end(), {{"connect, the last hundred against the first",
                          ours->connect_last_ms / ours->connect_first_ms, 1.5},
                         {"progress() of an idle worker, ns", ours->progress_ns, 60},
                         {"close, ms", ours->close_ms, 0.2}});
  if (const Figures* const raw = find(runs, raw_library().name, kPeers)) {
    all.push_back({"put of 8 B, round robin, against raw verbs", ours->put_ns / raw->put_ns, 1.5});
    all.push_back({"memory of an endpoint here without its queue pairs, KiB",
                   ours->here_kib - raw->here_kib, 96});
    all.push_back({"memory of an endpoint there without its queue pairs, KiB",
                   ours->there_kib - raw->there_kib, 96});
  }
  return all;
}

nlohmann::json to_json(const std::vector<Run>& runs, unsigned storm,
                       std::optional<double> storm_ms) {
  nlohmann::json list = nlohmann::json::array();
  for (const Run& run : runs) {
    const Figures& f = run.figures;
    list.push_back({{"library", run.library},
                    {"peers", run.connections},
                    {"here_kib", f.here_kib},
                    {"there_kib", f.there_kib},
                    {"connect_first_ms", f.connect_first_ms},
                    {"connect_last_ms", f.connect_last_ms},
                    {"put_ns", f.put_ns},
                    {"progress_ns", f.progress_ns},
                    {"close_ms", f.close_ms}});
  }
  nlohmann::json limits = nlohmann::json::array();
  for (const Bound& bound : bounds(runs, storm_ms)) {
    limits.push_back({{"what", bound.name},
                      {"value", bound.value},
                      {"bound", bound.most},
                      {"met", bound.value <= bound.most}});
  }
  nlohmann::json whole{{"machine", describe_machine()}, {"runs", list}, {"bounds", limits}};
  if (storm_ms) whole["storm"] = {{"clients", storm}, {"connected_ms", *storm_ms}};
  return whole;
}

int measure_all(const Options& options) {
  allow_descriptors();
  std::vector<Library> libraries{our_library(), raw_library(), ucx_library()};
  for (const std::string& name : options.libraries) {
    if (std::ranges::none_of(libraries, [&](const Library& one) { return one.name == name; }))
      throw std::runtime_error("there is no library " + name + ": hbmwire, raw verbs, UCX");
  }
  if (!options.libraries.empty()) {
    std::erase_if(libraries, [&](const Library& one) {
      return std::ranges::find(options.libraries, one.name) == options.libraries.end();
    });
  }
  std::vector<Run> runs;
  if (!options.json) print(describe_machine() + "\n" + head());
  for (const std::size_t connections : options.connections) {
    // In turn, so that all libraries share the machine's good and bad times.
    std::map<std::string, std::vector<Figures>> figures;
    for (unsigned i = 0; i < (options.quick ? 1 : options.runs); ++i) {
      for (const Library& library : libraries)
        figures[library.name].push_back(measure(library, connections, options.quick));
    }
    for (const Library& library : libraries) {
      runs.push_back({library.name, connections, median_of(figures[library.name])});
      if (!options.json) print(line(runs.back()));
    }
  }
  constexpr unsigned kProcesses = 20;
  const unsigned each = options.quick ? 1 : options.storm / kProcesses;
  const bool ours =
      std::ranges::find(libraries, our_library().name, &Library::name) != libraries.end();
  std::optional<double> storm_ms;
  if (ours && each != 0) storm_ms = measure_storm_ms(kProcesses, each);
  if (options.json) {
    print(to_json(runs, kProcesses * each, storm_ms).dump(2) + "\n");
    return 0;
  }
  if (storm_ms) {
    print(
        fmt::format("{} clients of {} processes, at the same moment: all connected in {:.0f} ms\n",
                    kProcesses * each, kProcesses, *storm_ms));
  }
  for (const Bound& bound : bounds(runs, storm_ms)) {
    print(fmt::format("{:<58} {:>8.2f}  <= {:<6g} {}\n", bound.name, bound.value, bound.most,
                      bound.value <= bound.most ? "met" : "NOT MET"));
  }
  return 0;
}

}  // namespace
}  // namespace hbmwire::bench

int main(int argc, char** argv) {
  using namespace hbmwire::bench;
  go_by_nic();
  CLI::App app(
      "The cost of one more peer: endpoints of one worker to another process, against as\n"
      "many queue pairs by raw verbs, and UCX, all on one NIC.");
  Options options;
  app.add_option("--peers", options.connections, "so many connections (repeatable)")
      ->take_all()
      ->check(CLI::PositiveNumber)
      ->default_str("1 100 1000");
  app.add_option("--library", options.libraries, "hbmwire, \"raw verbs\" or UCX alone (repeatable)")
      ->take_all();
  app.add_option("--runs", options.runs, "of each; the median counts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--storm", options.storm,
                 "so many clients, of 20 processes, connect to one listener at the same moment; 0: "
                 "none do")
      ->capture_default_str();
  app.add_flag("--quick", options.quick, "one short run of each: does it run?");
  app.add_flag("--json", options.json, "a JSON object in place of the table");
  CLI11_PARSE(app, argc, argv);
  try {
    return measure_all(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench: %s\n", error.what());
    return 1;
  }
}

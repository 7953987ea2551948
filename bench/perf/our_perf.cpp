// SPDX-License-Identifier: MIT
#include "bench/perf/our_perf.hpp"

#include <filesystem>
#include <stdexcept>

#include "bench/common/pair.hpp"
#include <nlohmann/json.hpp>

namespace hbmwire::bench {
namespace {

/// The program of the same build: build/release/bin/hbmwire, next to build/release/bench.
std::string program() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() /
          "bin/hbmwire")
      .string();
}

PerfFigures figures_of(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.contains("rows"))
    throw std::runtime_error("hbmwire perf gave no figure");
  const auto& row = json["rows"].at(0);
  if (!row["verification"]["passed"].get<bool>())
    throw std::runtime_error("hbmwire perf: what arrived was not verified");
  PerfFigures figures;
  if (row["latency"].is_object()) figures.typical_ns = row["latency"]["typical_ns"].get<double>();
  if (row["bandwidth"].is_object())
    figures.message_ns = 1e9 / row["bandwidth"]["messages_per_second"].get<double>();
  return figures;
}

}  // namespace

PerfFigures hbmwire_perf(const PerfTest& test) {
  const unsigned port = free_port();
  const std::string at = std::to_string(port);
  ProgramPair pair{
      .server = {program(), "perf", test.name, "-p", at, "--bind", "127.0.0.1"},
      .client = {program(), "perf", test.name, "127.0.0.1", "-p", at, "-s",
                 std::to_string(test.bytes), "-n", std::to_string(test.iterations), "--json"},
      .port = port};
  pair.client.insert(pair.client.end(), test.options.begin(), test.options.end());
  pair.server.insert(pair.server.end(), test.server_options.begin(), test.server_options.end());
  return figures_of(run_pair(pair));
}

}  // namespace hbmwire::bench

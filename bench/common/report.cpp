// SPDX-License-Identifier: MIT
#include "bench/common/report.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <fstream>

#include "bench/common/peer.hpp"
#include <nlohmann/json.hpp>

namespace hbmwire::bench {
namespace {

std::string figure(const Row& row, double ns) {
  if (ns == 0) return "-";
  if (row.factor) return fmt::format("{:.2f} x", ns);
  if (row.bytes != 0) return fmt::format("{:.2f} GB/s", static_cast<double>(row.bytes) / ns);
  return ns < 10'000 ? fmt::format("{:.1f} ns", ns) : fmt::format("{:.1f} us", ns / 1000);
}

std::string bar(const Row& row, const std::optional<double>& value) {
  if (!value) return "-";
  return fmt::format("{} {:.{}f}", row.better == Better::higher ? ">=" : "<=", *value,
                     row.difference ? 0 : 2);
}

const char* verdict(const Row& row, const Result& result) {
  if (result.kept == 0) return "no steady pair";
  if (!row.limit) return "";
  if (!result.meets(row, *row.limit)) return "NOT MET";
  return row.aim && result.meets(row, *row.aim) ? "met, aim too" : "met";
}

/// The value behind `key` in the first line that begins with it, as in /proc/cpuinfo.
std::string first_value(const char* file, const std::string& key) {
  std::ifstream lines(file);
  std::string line;
  while (std::getline(lines, line)) {
    if (line.rfind(key, 0) != 0) continue;
    const std::size_t start = line.find_first_not_of(" \t:", key.size());
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "unknown";
}

/// The load average of the last minute.
std::string load() {
  std::ifstream file("/proc/loadavg");
  std::string one;
  file >> one;
  return one;
}

}  // namespace

std::string table_head() {
  return fmt::format("{:<14} {:<33} {:>13}  {:<18} {:>13}  {:>6} {:<13} {:<8} {:<8} {:<14} {}\n",
                     "row", "ours", "", "theirs", "", "ratio", "quartiles", "bound", "aim", "",
                     "pairs kept, dropped");
}

std::string table_line(const Row& row, const Result& result) {
  const int digits = row.difference ? 1 : 2;
  const std::string quartiles =
      fmt::format("{:.{}f}..{:.{}f}", result.lowest, digits, result.highest, digits);
  const std::string ratio =
      row.difference ? fmt::format("{:+.1f}", result.ratio) : fmt::format("{:.3f}", result.ratio);
  return fmt::format(
      "{:<14} {:<33} {:>13}  {:<18} {:>13}  {:>6} {:<13} {:<8} {:<8} {:<14} "
      "{}, {}\n",
      row.name, row.ours, figure(row, result.ours_ns), row.theirs, figure(row, result.theirs_ns),
      ratio, quartiles, bar(row, row.limit), bar(row, row.aim), verdict(row, result), result.kept,
      result.dropped);
}

std::string describe_machine() {
  utsname system{};
  ::uname(&system);
  const Cpus cpus = Cpus::allowed();
  return fmt::format("{}, kernel {}, CPUs {} and {}, load {}",
                     first_value("/proc/cpuinfo", "model name"), system.release, cpus.first,
                     cpus.second, load());
}

std::string json(const std::vector<Row>& rows, const std::vector<Result>& results) {
  nlohmann::json list = nlohmann::json::array();
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Row& row = rows[i];
    const Result& result = results[i];
    nlohmann::json entry{{"row", row.name},
                         {"ours", row.ours},
                         {"theirs", row.theirs},
                         {"ours_ns", result.ours_ns},
                         {"theirs_ns", result.theirs_ns},
                         {"ratio", result.ratio},
                         {"quartiles", {result.lowest, result.highest}},
                         {"better", row.better == Better::higher ? "higher" : "lower"},
                         {"pairs", {{"kept", result.kept}, {"dropped", result.dropped}}},
                         {"hop_ns", {result.fastest.hop_ns, result.slowest.hop_ns}},
                         {"work_ns", {result.fastest.work_ns, result.slowest.work_ns}}};
    if (row.limit) {
      entry["bound"] = *row.limit;
      entry["met"] = result.kept != 0 && result.meets(row, *row.limit);
    }
    if (row.factor) entry["factor"] = true;
    if (row.difference) entry["difference_ns"] = true;
    if (row.bytes != 0) entry["bytes"] = row.bytes;
    if (row.aim) {
      entry["aim"] = *row.aim;
      entry["aim_met"] = result.kept != 0 && result.meets(row, *row.aim);
    }
    list.push_back(std::move(entry));
  }
  return nlohmann::json{{"machine", describe_machine()}, {"rows", std::move(list)}}.dump(2) + "\n";
}

}  // namespace hbmwire::bench

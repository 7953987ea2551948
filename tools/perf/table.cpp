// SPDX-License-Identifier: MIT
#include "tools/perf/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "tools/common/text.hpp"
#include "tools/wire/messages.hpp"

namespace hbmwire::tools::perf {
namespace {

constexpr double kMebi = 1 << 20;

// perftest's headlines, column by column, so that programs which parse its output by position or by
// word also understand this.
constexpr std::string_view kBandwidthMebi =
    " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]";
constexpr std::string_view kBandwidthGiga =
    " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]";
constexpr std::string_view kLatency =
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    "
    "t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] ";
constexpr std::string_view kMore = "  CPU_Util[%]  peer_CPU[%]  data";

std::string_view known_headline(Measure measure, const Style& style) {
  if (measure == Measure::latency) return kLatency;
  return style.gigabits ? kBandwidthGiga : kBandwidthMebi;
}

// The offsets of the columns: words after two blanks or more, or at the start, and "#iterations",
// which perftest's latency headline separates by one blank.
std::vector<std::size_t> columns_of(std::string_view headline) {
  std::vector<std::size_t> columns;
  for (std::size_t i = 1; i < headline.size(); ++i) {
    const bool starts = headline[i] != ' ' && headline[i - 1] == ' ';
    const bool apart = i < 2 || headline[i - 2] == ' ' || headline[i] == '#';
    if (starts && apart) columns.push_back(i);
  }
  return columns;
}

// Writes each value below the head of its column, or after a long value before it.
std::string put_below(std::string_view headline, const std::vector<std::string>& values) {
  const auto columns = columns_of(headline);
  std::string line;
  for (std::size_t i = 0; i < values.size() && i < columns.size(); ++i) {
    const std::size_t at = std::max(columns[i], line.empty() ? 0 : line.size() + 1);
    line.resize(at, ' ');
    line += values[i];
  }
  return line;
}

std::string rate_column(double bytes_per_second, const Style& style) {
  const double rate =
      style.gigabits ? bytes_per_second * kBitsPerByte / 1e9 : bytes_per_second / kMebi;
  // As in perftest, slow tests show more digits.
  return rate < 0.1 ? fmt::format("{:.6f}", rate) : fmt::format("{:.2f}", rate);
}

std::string time_column(double nanoseconds) { return fmt::format("{:.3f}", nanoseconds / 1000); }

std::string cpu_column(const std::optional<CpuUse>& cpu) {
  return cpu ? fmt::format("{:.1f}", cpu->total() * 100) : "-";
}

std::string data_column(const Verification& verification) {
  if (!verification.wanted) return "NOT VERIFIED";
  return verification.passed() ? "verified" : "WRONG";
}

// Shows no figures if the verification failed.
std::vector<std::string> figures(const Row& row, Measure measure, const Style& style) {
  if (measure == Measure::bandwidth) {
    if (!row.is_trusted() || !row.bandwidth) return {"-", "-", "-"};
    const Bandwidth& bandwidth = *row.bandwidth;
    return {rate_column(bandwidth.peak_bytes_per_second, style),
            rate_column(bandwidth.average_bytes_per_second, style),
            fmt::format("{:.6f}", bandwidth.messages_per_second / 1e6)};
  }
  if (!row.is_trusted() || !row.latency) return {"-", "-", "-", "-", "-", "-", "-"};
  const Latency& latency = *row.latency;
  return {time_column(latency.min_ns),
          time_column(latency.max_ns),
          time_column(latency.typical_ns),
          time_column(latency.average_ns),
          time_column(latency.stdev_ns),
          time_column(latency.percentile_99_ns),
          time_column(latency.percentile_99_9_ns)};
}

std::string dashes(std::size_t length) { return std::string(length, '-'); }

std::string printable_value(const Json& value) {
  return value.is_string() ? wire::printable(value.get<std::string>()) : value.dump();
}

std::string side_text(const Side& side) {
  std::string text = fmt::format("{}, {}, {} memory", side.host, side.nic, side.memory);
  if (!side.device.empty()) text += fmt::format(" ({})", side.device);
  return wire::printable(text);
}

std::string verification_line(const RunResult& run) {
  if (!run.verified) return "NOT VERIFIED (--no-verify): the bytes that arrived were not compared";
  Verification all;
  std::string problem;
  for (const Row& row : run.rows) {
    all.slots += row.verification.slots;
    all.bytes += row.verification.bytes;
    all.wrong_bytes += row.verification.wrong_bytes;
    all.arrivals += row.verification.arrivals;
    if (problem.empty()) problem = row.verification.problem;
  }
  std::string text = fmt::format(
      "{} places compared in memory, before and after the timed part, {}, {} "
      "wrong bytes",
      all.slots, size_text(all.bytes), all.wrong_bytes);
  if (all.arrivals != 0) text += fmt::format("; {} arrivals counted by the receiver", all.arrivals);
  if (!problem.empty()) text += "; " + problem;
  return text;
}

std::string registration_text(const Side& side) {
  return fmt::format("{} in {}", size_text(side.registered_bytes),
                     duration_text(side.registration_ns));
}

std::string distance_text(const Side& side) {
  return side.distance.empty() ? "" : fmt::format(", NIC and device: {}", side.distance);
}

// Merges neighbouring sizes whose transfers went the same way.
std::vector<std::string> transfer_lines(const std::vector<Row>& rows) {
  std::vector<std::string> lines;
  for (std::size_t first = 0; first < rows.size();) {
    std::size_t last = first;
    while (last + 1 < rows.size() && rows[last + 1].path == rows[first].path) ++last;
    if (!rows[first].path.empty()) {
      std::string sizes = size_text(rows[first].size_bytes);
      if (last != first) sizes += " to " + size_text(rows[last].size_bytes);
      lines.push_back(sizes + ": " + rows[first].path);
    }
    first = last + 1;
  }
  return lines;
}

// Below this share of the limit, a run is not limited by bandwidth but by the latency of its short
// messages.
constexpr double kBoundShare = 0.05;

std::string verdict_line(const Verdict& verdict, const Style& style) {
  if (verdict.share < kBoundShare) {
    return fmt::format("not bound by {}: {} of {}, at {}", verdict.limit.what,
                       speed_text(verdict.reached_bytes_per_second, style),
                       speed_text(verdict.limit.bytes_per_second, style),
                       size_text(verdict.size_bytes));
  }
  return fmt::format("{:.1f}% of what applies, {}: {} of {}, at {}", verdict.share * 100,
                     verdict.limit.what, speed_text(verdict.reached_bytes_per_second, style),
                     speed_text(verdict.limit.bytes_per_second, style),
                     size_text(verdict.size_bytes));
}

}  // namespace

std::string speed_text(double bytes_per_second, const Style& style) {
  const double rate = bytes_per_second * (style.gigabits ? kBitsPerByte : 1);
  const char letter = style.gigabits ? 'b' : 'B';
  return rate < 1e9 ? fmt::format("{:.2f} M{}/s", rate / 1e6, letter)
                    : fmt::format("{:.2f} G{}/s", rate / 1e9, letter);
}

std::string duration_text(double nanoseconds) {
  if (nanoseconds < 1e3) return fmt::format("{:.0f} ns", nanoseconds);
  if (nanoseconds < 1e6) return fmt::format("{:.3g} us", nanoseconds / 1e3);
  if (nanoseconds < 1e9) return fmt::format("{:.3g} ms", nanoseconds / 1e6);
  return fmt::format("{:.3g} s", nanoseconds / 1e9);
}

std::string banner_text(const RunResult& run) {
  constexpr std::size_t kWidth = 87;  // as in perftest
  std::string text = dashes(kWidth) + "\n" + std::string(20, ' ') + run.title +
                     (run.emulated ? " (emulated hardware)" : "") + "\n";
  for (std::size_t i = 0; i < run.parameters.size(); ++i) {
    const Parameter& parameter = run.parameters[i];
    const std::string part =
        fmt::format(" {:<15} : {}", parameter.label, printable_value(parameter.value));
    text += i % 2 == 0 ? fmt::format("{:<40}", part) : part;
    if (i % 2 == 1 || i + 1 == run.parameters.size()) text += "\n";
  }
  text += fmt::format(" {:<15} : {}\n", "here", side_text(run.local));
  text += fmt::format(" {:<15} : {}\n", "there", side_text(run.remote));
  return text + dashes(kWidth);
}

std::string headline_text(Measure measure, const Style& style) {
  return std::string(known_headline(measure, style)) + std::string(kMore);
}

std::string row_text(const Row& row, Measure measure, const Style& style) {
  std::vector<std::string> values{fmt::format("{}", row.size_bytes),
                                  fmt::format("{}", row.iterations)};
  for (auto& figure : figures(row, measure, style)) values.push_back(std::move(figure));
  values.push_back(cpu_column(row.cpu));
  values.push_back(cpu_column(row.peer_cpu));
  values.push_back(data_column(row.verification));
  return put_below(headline_text(measure, style), values);
}

std::vector<std::string> closing_lines(const RunResult& run, const Style& style) {
  std::vector<std::string> lines;
  const auto add = [&](const char* label, const std::string& text) {
    lines.push_back(fmt::format(" {:<15} : {}", label, wire::printable(text)));
  };
  add("Verification", verification_line(run));
  add("Registration", fmt::format("here {}; there {}", registration_text(run.local),
                                  registration_text(run.remote)));
  add("Path here", run.local.path + distance_text(run.local));
  for (const std::string& reason : run.local.explanation) add("", reason);
  add("Path there", run.remote.path + distance_text(run.remote));
  for (const std::string& reason : run.remote.explanation) add("", reason);
  for (const std::string& line : transfer_lines(run.rows)) add("Transfers", line);
  if (run.verdict) {
    add("Verdict",
        verdict_line(*run.verdict, style) + (run.emulated ? " (emulated hardware)" : ""));
  } else {
    add("Verdict", "none: " + run.why_no_verdict);
  }
  return lines;
}

}  // namespace hbmwire::tools::perf

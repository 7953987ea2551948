// SPDX-License-Identifier: MIT
#include "tools/perf/run_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "tools/common/text_file.hpp"
#include "tools/perf/json_fields.hpp"
#include "tools/wire/messages.hpp"

namespace hbmwire::tools::perf {
namespace {

constexpr const char* kFormat = "hbmwire perf";
constexpr int kVersion = 1;

std::string_view name_of(Measure measure) {
  return measure == Measure::bandwidth ? "bandwidth" : "latency";
}

std::string_view name_of(Limit::Kind kind) {
  switch (kind) {
    case Limit::Kind::link:
      return "link";
    case Limit::Kind::pcie:
      return "pcie";
    case Limit::Kind::memcpy:
      return "memcpy";
  }
  return "?";
}

// "Mtu [B]" to "Mtu", "TX depth" to "TX_depth", as perftest's keys are.
std::string underscored(const std::string& label) {
  std::string text = label.substr(0, label.find(" ["));
  std::ranges::replace(text, ' ', '_');
  return text;
}

Json test_info(const RunResult& run) {
  Json info{{"test", underscored(run.title)}, {"Device", run.local.nic}};
  for (const Parameter& parameter : run.parameters)
    info[underscored(parameter.label)] = parameter.value;
  return info;
}

// perftest's units: MiB or Gb, millions of messages, microseconds.
Json results(const Row& row, const Style& style) {
  Json json{{"MsgSize", row.size_bytes}, {"n_iterations", row.iterations}};
  const double unit = style.gigabits ? 1e9 / 8 : 1 << 20;
  if (row.bandwidth) {
    json["BW_peak"] = row.bandwidth->peak_bytes_per_second / unit;
    json["BW_average"] = row.bandwidth->average_bytes_per_second / unit;
    json["MsgRate"] = row.bandwidth->messages_per_second / 1e6;
  }
  if (row.latency) {
    json["t_min"] = row.latency->min_ns / 1e3;
    json["t_max"] = row.latency->max_ns / 1e3;
    json["t_typical"] = row.latency->typical_ns / 1e3;
    json["t_avg"] = row.latency->average_ns / 1e3;
    json["t_stdev"] = row.latency->stdev_ns / 1e3;
    json["percentile_99"] = row.latency->percentile_99_ns / 1e3;
    json["percentile_99.9"] = row.latency->percentile_99_9_ns / 1e3;
  }
  if (row.cpu) json["CPU_util"] = row.cpu->total() * 100;
  return json;
}

Json to_json(const Bandwidth& bandwidth) {
  return {{"peak_bytes_per_second", bandwidth.peak_bytes_per_second},
          {"average_bytes_per_second", bandwidth.average_bytes_per_second},
          {"messages_per_second", bandwidth.messages_per_second},
          {"noise", bandwidth.noise}};
}

Json to_json(const Latency& latency) {
  return {{"min_ns", latency.min_ns},
          {"max_ns", latency.max_ns},
          {"typical_ns", latency.typical_ns},
          {"average_ns", latency.average_ns},
          {"stdev_ns", latency.stdev_ns},
          {"percentile_99_ns", latency.percentile_99_ns},
          {"percentile_99_9_ns", latency.percentile_99_9_ns},
          {"noise", latency.noise}};
}

Json to_json(const CpuUse& use) { return {{"user", use.user}, {"system", use.system}}; }

Json to_json(const Verification& verification) {
  return {{"wanted", verification.wanted},
          {"passed", verification.passed()},
          {"places", verification.slots},
          {"bytes", verification.bytes},
          {"wrong_bytes", verification.wrong_bytes},
          {"arrivals", verification.arrivals},
          {"expected_arrivals", verification.expected_arrivals},
          {"problem", verification.problem}};
}

template <class T>
Json or_null(const std::optional<T>& value, bool wanted = true) {
  return value && wanted ? to_json(*value) : Json(nullptr);
}

Json to_json(const Row& row) {
  const bool trusted = row.is_trusted();
  return {{"size_bytes", row.size_bytes},
          {"iterations", row.iterations},
          {"bandwidth", or_null(row.bandwidth, trusted)},
          {"latency", or_null(row.latency, trusted)},
          {"cpu", or_null(row.cpu)},
          {"peer_cpu", or_null(row.peer_cpu)},
          {"memcpy_bytes_per_second",
           row.memcpy_bytes_per_second > 0 ? Json(row.memcpy_bytes_per_second) : Json(nullptr)},
          {"path", row.path},
          {"moved_bytes", row.moved_bytes ? Json(*row.moved_bytes) : Json(nullptr)},
          {"verification", to_json(row.verification)}};
}

Json to_json(const Limit& limit) {
  return {{"kind", name_of(limit.kind)},
          {"bytes_per_second", limit.bytes_per_second},
          {"what", limit.what}};
}

Json to_json(const Side& side) {
  Json limits = Json::array();
  for (const Limit& limit : side.limits) limits.push_back(to_json(limit));
  return {{"host", side.host},
          {"nic", side.nic},
          {"memory", side.memory},
          {"device", side.device},
          {"path", side.path},
          {"explanation", side.explanation},
          {"distance", side.distance},
          {"registered_bytes", side.registered_bytes},
          {"registration_ns", side.registration_ns},
          {"registrations", side.registrations},
          {"limits", limits}};
}

Json to_json(const Verdict& verdict) {
  return {{"limit", to_json(verdict.limit)},
          {"size_bytes", verdict.size_bytes},
          {"reached_bytes_per_second", verdict.reached_bytes_per_second},
          {"share", verdict.share}};
}

Bandwidth read_bandwidth(JsonFields fields) {
  return {.peak_bytes_per_second = fields.amount("peak_bytes_per_second"),
          .average_bytes_per_second = fields.amount("average_bytes_per_second"),
          .messages_per_second = fields.amount("messages_per_second"),
          .noise = fields.amount("noise")};
}

Latency read_latency(JsonFields fields) {
  return {.min_ns = fields.amount("min_ns"),
          .max_ns = fields.amount("max_ns"),
          .typical_ns = fields.amount("typical_ns"),
          .average_ns = fields.amount("average_ns"),
          .stdev_ns = fields.amount("stdev_ns"),
          .percentile_99_ns = fields.amount("percentile_99_ns"),
          .percentile_99_9_ns = fields.amount("percentile_99_9_ns"),
          .noise = fields.amount("noise")};
}

Row read_row(JsonFields fields) {
  Row row;
  row.size_bytes = fields.count("size_bytes");
  row.iterations = fields.count("iterations");
  if (!fields.is_null("bandwidth")) row.bandwidth = read_bandwidth(fields.object("bandwidth"));
  if (!fields.is_null("latency")) row.latency = read_latency(fields.object("latency"));
  // The file has null for the figures of a row that failed verification, so all that it has may be
  // shown.
  row.verification.wanted = false;
  return row;
}

Side read_side(JsonFields fields) {
  Side side;
  side.nic = fields.text("nic");
  side.memory = fields.text("memory");
  side.device = fields.text("device");
  side.path = fields.text("path");
  return side;
}

// Keeps plain values only. A comparison shows those that differ, by their keys.
std::vector<Parameter> read_parameters(const Json& object, std::string& problem) {
  std::vector<Parameter> parameters;
  if (!object.is_object()) {
    if (problem.empty()) problem = "parameters is no object";
    return parameters;
  }
  for (const auto& [key, value] : object.items()) {
    if (value.is_primitive()) parameters.push_back({.label = key, .key = key, .value = value});
  }
  return parameters;
}

Measure read_measure(JsonFields& fields, std::string& problem) {
  const std::string name = fields.text("measure");
  if (name == name_of(Measure::latency)) return Measure::latency;
  if (name != name_of(Measure::bandwidth) && problem.empty())
    problem = "measure is neither bandwidth nor latency";
  return Measure::bandwidth;
}

}  // namespace

Json to_json(const RunResult& run, const Style& style) {
  Json parameters = Json::object();
  for (const Parameter& parameter : run.parameters) parameters[parameter.key] = parameter.value;
  Json rows = Json::array();
  for (const Row& row : run.rows) rows.push_back(to_json(row));
  const bool has_results = !run.rows.empty() && run.rows.back().is_trusted();
  return {{"format", kFormat},
          {"version", kVersion},
          {"test_info", test_info(run)},
          {"results", has_results ? results(run.rows.back(), style) : Json(nullptr)},
          {"BW_unit", style.gigabits ? "Gb/sec" : "MiB/sec"},
          {"test", run.test},
          {"measure", name_of(run.measure)},
          {"bidirectional", run.bidirectional},
          {"verified", run.verified},
          {"emulated", run.emulated},
          {"parameters", parameters},
          {"local", to_json(run.local)},
          {"remote", to_json(run.remote)},
          {"rows", rows},
          {"verdict", run.verdict ? to_json(*run.verdict) : Json(nullptr)},
          {"why_no_verdict", run.verdict ? Json(nullptr) : Json(run.why_no_verdict)}};
}

tl::expected<RunResult, std::string> run_from_json(const Json& json) {
  std::string problem;
  JsonFields fields(json, "", problem);
  fields.expect_format(kFormat, kVersion);
  if (!problem.empty()) return tl::make_unexpected(problem);
  RunResult run;
  run.test = fields.text("test");
  run.measure = read_measure(fields, problem);
  run.bidirectional = fields.truth("bidirectional");
  run.verified = fields.truth("verified");
  run.emulated = fields.truth("emulated");
  run.local = read_side(fields.object("local"));
  run.remote = read_side(fields.object("remote"));
  if (json.contains("parameters")) run.parameters = read_parameters(json["parameters"], problem);
  const Json& rows = fields.list("rows");
  for (std::size_t i = 0; i < rows.size() && problem.empty(); ++i)
    run.rows.push_back(read_row({rows[i], "rows[" + std::to_string(i) + "]", problem}));
  if (!problem.empty()) return tl::make_unexpected(problem);
  std::ranges::stable_sort(run.rows, {}, &Row::size_bytes);
  return run;
}

Outcome<RunResult> read_run(const std::string& path) {
  constexpr std::uint64_t kMostBytes = 16 << 20;  // a sweep has some 20 KiB
  HBMWIRE_TRY_ASSIGN(const std::string text, read_text_file(path, kMostBytes));
  const auto refuse = [&](const std::string& why) {
    return hbmwire::tools::fail(fmt::format(
        "compare: {} is no run that `hbmwire perf` saved: {}; save one by --out_json_file FILE",
        path, wire::printable(why)));
  };
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return refuse("it is no JSON");
  auto run = run_from_json(json);
  if (!run) return refuse(run.error());
  return std::move(*run);
}

}  // namespace hbmwire::tools::perf

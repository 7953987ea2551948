// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <limits>
#include <optional>
#include <utility>

#include "tools/common/text_file.hpp"
#include "tools/perf/all/names.hpp"
#include "tools/perf/all/outliers.hpp"
#include "tools/perf/all/presentation.hpp"
#include "tools/perf/all/statistics.hpp"
#include "tools/perf/json_fields.hpp"
#include "tools/wire/messages.hpp"

namespace hbmwire::tools::perf::all {
namespace {

constexpr const char* kFormat = "hbmwire perf --all";
constexpr int kVersion = 1;
constexpr CellState kStates[] = {CellState::not_measured, CellState::measured,
                                 CellState::unreachable, CellState::broken, CellState::corrupt};

Json end_json(const End& end) {
  return {{"rank", end.rank},         {"host", end.host},
          {"nic", end.nic},           {"memory", end.memory},
          {"device", end.device},     {"path", end.path},
          {"distance", end.distance}, {"link_bytes_per_second", end.link_bytes_per_second},
          {"facts", end.facts}};
}

Json cells_json(const MatrixRun& run, const std::vector<Cell>& cells) {
  Json list = Json::array();
  for (const Cell& cell : cells) {
    const auto share = share_of_link(run, cell);
    list.push_back({{"source", cell.source},
                    {"target", cell.target},
                    {"state", name_of(cell.state)},
                    {"bytes_per_second", cell.bytes_per_second},
                    {"share_of_slower_link", share ? Json(*share) : Json(nullptr)},
                    {"verified_bytes", cell.verified_bytes},
                    {"path", cell.path},
                    {"problem", cell.problem}});
  }
  return list;
}

Json broken_json(const std::vector<BrokenRank>& ranks) {
  Json list = Json::array();
  for (const BrokenRank& broken : ranks)
    list.push_back({{"rank", broken.rank}, {"host", broken.host}, {"problem", broken.problem}});
  return list;
}

Json spread_json(const std::vector<double>& values) {
  const auto spread = spread_of(values);
  if (!spread) return nullptr;
  return {{"count", spread->count},
          {"min", spread->min},
          {"median", spread->median},
          {"max", spread->max}};
}

Json phase_json(const std::vector<Cell>& cells, bool with_sums) {
  Json json{{"cells", cells.size()}, {"bytes_per_second", spread_json(rates_of(cells))}};
  if (!with_sums) return json;
  const auto sums = target_sums(cells);
  json["bytes_per_second_of_targets"] = spread_json(whole_sums(sums));
  Json targets = Json::array();
  for (const TargetSum& sum : sums)
    targets.push_back({{"target", sum.target},
                       {"bytes_per_second", sum.bytes_per_second},
                       {"measured", sum.measured},
                       {"failed", sum.failed}});
  json["targets"] = std::move(targets);
  return json;
}

Json slow_ends_json(const std::vector<SlowEnd>& ends) {
  Json list = Json::array();
  for (const SlowEnd& slow : ends)
    list.push_back({{"end", slow.end},
                    {"as_source", slow.as_source},
                    {"as_target", slow.as_target},
                    {"cells", slow.cells},
                    {"ratio", slow.ratio},
                    {"reason", slow.reason}});
  return list;
}

Json slow_pairs_json(const std::vector<SlowPair>& pairs) {
  Json list = Json::array();
  for (const SlowPair& slow : pairs)
    list.push_back({{"source", slow.cell.source},
                    {"target", slow.cell.target},
                    {"bytes_per_second", slow.cell.bytes_per_second},
                    {"ratio", slow.ratio},
                    {"reason", slow.reason}});
  return list;
}

Json summary_json(const MatrixRun& run) {
  const Outliers outliers = outliers_of(run);
  return {{"typical_bytes_per_second", outliers.typical_bytes_per_second},
          {"slow_share", kSlowShare},
          {"pairs", phase_json(run.pairs, /*with_sums=*/false)},
          {"all_at_once", phase_json(run.all_at_once, /*with_sums=*/true)},
          {"many_to_one", phase_json(run.many_to_one, /*with_sums=*/true)},
          {"slow_ends", slow_ends_json(outliers.ends)},
          {"slow_pairs", slow_pairs_json(outliers.pairs)},
          {"verified_bytes", verified_bytes(run)}};
}

constexpr std::uint64_t kRankLimit = std::uint64_t{1} << 32;

End read_end(JsonFields fields) {
  End end;
  end.rank = static_cast<std::uint32_t>(fields.index("rank", kRankLimit));
  end.host = fields.text("host");
  end.nic = fields.text("nic");
  end.memory = fields.text("memory");
  end.device = fields.text("device");
  end.path = fields.text("path");
  end.distance = fields.text("distance");
  end.link_bytes_per_second = fields.amount("link_bytes_per_second");
  end.facts = fields.texts("facts");
  return end;
}

CellState read_state(JsonFields& fields) {
  const std::string name = fields.text("state");
  for (const CellState state : kStates) {
    if (name == name_of(state)) return state;
  }
  fields.refuse("state", "no state of a cell");
  return CellState::not_measured;
}

Cell read_cell(JsonFields fields, std::size_t ends) {
  Cell cell;
  cell.source = fields.index("source", ends);
  cell.target = fields.index("target", ends);
  cell.state = read_state(fields);
  cell.bytes_per_second = fields.amount("bytes_per_second");
  cell.verified_bytes = fields.count("verified_bytes");
  cell.path = fields.text("path");
  cell.problem = fields.text("problem");
  return cell;
}

BrokenRank read_broken(JsonFields fields) {
  BrokenRank broken;
  broken.rank = static_cast<std::uint32_t>(fields.index("rank", kRankLimit));
  broken.host = fields.text("host");
  broken.problem = fields.text("problem");
  return broken;
}

// Stops at the first problem, since a million cells may have the same one.
template <class Read>
auto read_list(JsonFields& fields, const char* key, const std::string& problem, Read read) {
  std::vector<decltype(read(std::declval<JsonFields>()))> all;
  const std::size_t size = fields.list(key).size();
  for (std::size_t i = 0; i < size && problem.empty(); ++i)
    all.push_back(read(fields.item(key, i)));
  return all;
}

MatrixRun read_run_of(JsonFields& fields, const std::string& problem) {
  MatrixRun run;
  run.ranks = static_cast<std::uint32_t>(fields.index("ranks", kRankLimit));
  run.launcher = fields.text("launcher");
  run.emulated = fields.truth("emulated");
  run.verified = fields.truth("verified");
  run.message_bytes = fields.count("message_bytes");
  run.seconds_per_cell = fields.amount("seconds_per_cell");
  run.ends = read_list(fields, "ends", problem, read_end);
  const auto read_own_cell = [&](JsonFields cell) {
    return read_cell(std::move(cell), run.ends.size());
  };
  run.pairs = read_list(fields, "pairs", problem, read_own_cell);
  run.all_at_once = read_list(fields, "all_at_once", problem, read_own_cell);
  run.many_to_one = read_list(fields, "many_to_one", problem, read_own_cell);
  run.broken = read_list(fields, "broken", problem, read_broken);
  return run;
}

tl::unexpected<Failure> refuse(const std::string& which, const std::string& why) {
  return fail(
      fmt::format("compare: {} is no run that `hbmwire perf --all` saved: {}; save one by "
                  "--out_json_file FILE",
                  which, wire::printable(why)));
}

Outcome<MatrixRun> read_matrix_of(const Json& json, const std::string& which) {
  std::string problem;
  JsonFields fields(json, "", problem);
  fields.expect_format(kFormat, kVersion);
  if (!problem.empty()) return refuse(which, problem);
  MatrixRun run = read_run_of(fields, problem);
  if (!problem.empty()) return refuse(which, problem);
  return run;
}

}  // namespace

Json to_json(const MatrixRun& run) {
  Json ends = Json::array();
  for (const End& end : run.ends) ends.push_back(end_json(end));
  return {{"format", kFormat},
          {"version", kVersion},
          {"ranks", run.ranks},
          {"launcher", run.launcher},
          {"emulated", run.emulated},
          {"verified", run.verified},
          {"message_bytes", run.message_bytes},
          {"seconds_per_cell", run.seconds_per_cell},
          {"summary", summary_json(run)},
          {"ends", std::move(ends)},
          {"pairs", cells_json(run, run.pairs)},
          {"all_at_once", cells_json(run, run.all_at_once)},
          {"many_to_one", cells_json(run, run.many_to_one)},
          {"broken", broken_json(run.broken)}};
}

Outcome<MatrixRun> matrix_from_json(const Json& json) {
  return read_matrix_of(json, "the JSON document");
}

Outcome<MatrixRun> read_matrix(const std::string& path) {
  constexpr std::uint64_t kMostBytes = 256 << 20;  // 256 ends have 65536 pairs of some 300 bytes
  HBMWIRE_TRY_ASSIGN(const std::string text, read_text_file(path, kMostBytes));
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return refuse(path, "it is no JSON");
  return read_matrix_of(json, path);
}

}  // namespace hbmwire::tools::perf::all

// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "perf_matrices.hpp"
#include "tools/perf/all/presentation.hpp"

namespace hbmwire::tools::perf::all {
namespace {

using testing::HasSubstr;

TEST(PerfMatrixJson, BringsRandomRunsBackExactly) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 200; ++round) {
    const MatrixRun run = random_run(random);
    const Json json = to_json(run);
    const auto read = matrix_from_json(Json::parse(json.dump()));
    ASSERT_TRUE(read) << read.error().text;
    EXPECT_TRUE(same_runs(run, *read)) << json.dump(1);
    EXPECT_EQ(to_json(*read), json);
  }
}

TEST(PerfMatrixJson, SumsUpItsPhasesAndOutliers) {
  MatrixRun run = equal_run(4);
  slow_down(run, 1, 0.5);
  run.ends[3].link_bytes_per_second = 0;
  fail_cell(run.many_to_one[0], CellState::broken, "cut");
  const Json json = to_json(run);
  const Json& summary = json["summary"];
  EXPECT_EQ(summary["typical_bytes_per_second"], kRate);
  EXPECT_EQ(summary["slow_ends"][0]["end"], 1);
  EXPECT_EQ(summary["pairs"]["bytes_per_second"]["min"], kRate / 2);
  EXPECT_EQ(summary["many_to_one"]["bytes_per_second_of_targets"]["count"], 3);
  EXPECT_EQ(summary["many_to_one"]["targets"][0]["failed"], 1);
  EXPECT_EQ(json["pairs"][1]["share_of_slower_link"], kRate / 12.5e9);
  EXPECT_TRUE(json["pairs"][2]["share_of_slower_link"].is_null());  // a link that is not known
}

/// The error, which is one sentence.
std::string matrix_refusal(const Json& json) {
  const auto read = matrix_from_json(json);
  if (read) return "";
  const std::string& text = read.error().text;
  EXPECT_TRUE(text.starts_with("compare: the JSON document is no run that `hbmwire perf --all`"));
  EXPECT_EQ(text.find_first_of("\n\r\x1b"), std::string::npos) << text;
  EXPECT_EQ(text.find(". "), std::string::npos) << text;
  return text;
}

TEST(PerfMatrixJson, RefusesDocumentsOfOthers) {
  for (const char* bad : {"null", "1", "[]", "\"x\"", "true"})
    EXPECT_THAT(matrix_refusal(Json::parse(bad)), HasSubstr("it is no object")) << bad;
  EXPECT_THAT(matrix_refusal(Json::object()), HasSubstr("format is missing"));
  Json json = to_json(equal_run(2));
  json["format"] = "hbmwire perf";
  EXPECT_THAT(matrix_refusal(json), HasSubstr("its format is another one"));
  json = to_json(equal_run(2));
  json["version"] = 2;
  EXPECT_THAT(matrix_refusal(json), HasSubstr("its version is another one"));
}

TEST(PerfMatrixJson, NamesTheValueThatIsMissing) {
  const Json good = to_json(equal_run(2));
  for (const auto& [key, value] : good.items()) {
    if (key == "summary") continue;  // made anew
    Json json = good;
    json.erase(key);
    EXPECT_THAT(matrix_refusal(json), HasSubstr(key + " is missing"));
  }
  for (const auto& [key, value] : good["pairs"][1].items()) {
    if (key == "share_of_slower_link") continue;
    Json json = good;
    json["pairs"][1].erase(key);
    EXPECT_THAT(matrix_refusal(json), HasSubstr("pairs[1]." + key + " is missing"));
  }
  for (const auto& [key, value] : good["ends"][0].items()) {
    Json json = good;
    json["ends"][0].erase(key);
    EXPECT_THAT(matrix_refusal(json), HasSubstr("ends[0]." + key + " is missing"));
  }
}

TEST(PerfMatrixJson, NamesTheValueThatCannotBe) {
  const auto with = [](const char* place, const Json& value) {
    Json json = to_json(equal_run(2));
    json[Json::json_pointer(place)] = value;
    return matrix_refusal(json);
  };
  for (const Json& bad :
       {Json(2), Json(-1), Json(1.5), Json(UINT64_MAX), Json("0"), Json(nullptr)}) {
    EXPECT_THAT(with("/pairs/0/source", bad), HasSubstr("pairs[0].source is"));
    EXPECT_THAT(with("/many_to_one/1/target", bad), HasSubstr("many_to_one[1].target is"));
  }
  for (const Json& bad : {Json(-1), Json(1e31), Json("1"), Json(nullptr), Json::array()}) {
    EXPECT_THAT(with("/all_at_once/0/bytes_per_second", bad), HasSubstr("bytes_per_second is"));
    EXPECT_THAT(with("/ends/1/link_bytes_per_second", bad), HasSubstr("link_bytes_per_second is"));
    EXPECT_THAT(with("/seconds_per_cell", bad), HasSubstr("seconds_per_cell is"));
  }
  EXPECT_THAT(with("/pairs/0/state", "fast"), HasSubstr("pairs[0].state is no state of a cell"));
  EXPECT_THAT(with("/ranks", std::uint64_t{1} << 32), HasSubstr("ranks is out of range"));
  EXPECT_THAT(with("/ends/0/rank", std::uint64_t{1} << 32),
              HasSubstr("ends[0].rank is out of range"));
  EXPECT_THAT(with("/ends/0/facts", Json::array({1})), HasSubstr("ends[0].facts is no list of"));
  EXPECT_THAT(with("/ends", 1), HasSubstr("ends is no list"));
  EXPECT_THAT(with("/pairs/1", nullptr), HasSubstr("pairs[1] is no object"));
  EXPECT_THAT(with("/broken", Json::array({Json::object()})),
              HasSubstr("broken[0].rank is missing"));
}

TEST(PerfMatrixJson, ShowsWhateverItAccepts) {
  std::mt19937_64 random(5);
  const std::vector<Json> values{-1, 0, 1, UINT64_MAX, 1e30, "", "measured", true, nullptr};
  MatrixRun good = equal_run(3);
  fail_cell(good.pairs[2], CellState::broken, "put: the peer is gone");
  good.broken.push_back({2, "n2", "it ended"});
  Json json = to_json(good);
  json.erase("summary");
  std::vector<std::string> places;
  const Json flat = json.flatten();
  for (const auto& [place, value] : flat.items()) places.push_back(place);
  int accepted = 0;
  for (int round = 0; round < 1000; ++round) {
    // One change of an accepted document after another, so that they add up.
    const Json::json_pointer place(places[random() % places.size()]);
    const Json previous = json.contains(place) ? json[place] : Json();
    json[place] = values[random() % values.size()];
    const auto run = matrix_from_json(json);
    if (!run) {
      json[place] = previous;
      continue;
    }
    ++accepted;
    EXPECT_FALSE(matrix_lines(*run, {}, false).empty());
    EXPECT_FALSE(to_csv(*run).empty());
    EXPECT_FALSE(heat_map_svg(*run, true).empty());
    static_cast<void>(compare_matrices(*run, *run));
  }
  EXPECT_GT(accepted, 100);
}

TEST(PerfMatrixFile, IsReadAsItWasSaved) {
  const std::string path = testing::TempDir() + "perf_matrix_file_test.json";
  const MatrixRun run = equal_run(3);
  std::ofstream(path) << to_json(run);
  const auto read = read_matrix(path);
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_TRUE(same_runs(run, *read));
  std::ofstream(path) << "{\"format\":";
  EXPECT_THAT(read_matrix(path).error().text, HasSubstr("it is no JSON"));
  std::filesystem::remove(path);
  EXPECT_THAT(read_matrix(path).error().text, HasSubstr("check the path"));
}

}  // namespace
}  // namespace hbmwire::tools::perf::all
